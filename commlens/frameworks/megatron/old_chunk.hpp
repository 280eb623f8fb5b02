#pragma once
#include <functional>

#include "commlens/model/job.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::megatron {

/// What one model chunk of Megatron core computes and sends for one micro-batch besides pipeline messages:
/// tensor and sequence parallelism, recomputation, token dispatch of experts. Messages are waited for at once
/// but those of a column-parallel matrix's backward pass, which run beside its weight gradient
/// (tensor_parallel/layers.py:404-470). Source: docs/rules.md#megatron-megatron-lm-core_v070.
class Chunk {
 public:
  struct Part {
    std::int64_t layers = 0;
    bool is_first = true;  // embedding
    bool is_last = true;   // unembedding and cross entropy
  };
  Chunk(ProgramBuilder& out, const Job& job, Part part);

  void forward(std::int32_t micro_batch);
  /// `finished` is called, unless empty, once all gradients of a layer of the chunk and those after it are
  /// complete, and with -1 after the embedding's.
  void backward(std::int32_t micro_batch, const std::function<void(std::int64_t layer)>& finished);

 private:
  bool is_moe() const { return job_.model.experts > 0; }
  bool recomputes(std::int64_t layer) const;
  void write_recompute(std::int64_t layer, std::int32_t micro_batch);
  void forward_layer();
  void backward_layer();
  void forward_all_reduce(std::string_view tag) const;
  void column_forward(std::string_view tag) const;  // sequence parallel: gather of the input
  void row_forward(std::string_view tag) const;     // all_reduce, or reduce_scatter of the output
  void column_backward(ModulePart matrix,
                       std::string_view tag);     // all_reduce, or re-gather and reduce_scatter
  void row_backward(std::string_view tag) const;  // sequence parallel: gather of the output gradient
  void experts_forward();
  void experts_backward();
  void compute_experts() { work_.forward({ModulePart::fc1, ModulePart::activation, ModulePart::fc2}); }
  void compute_experts_backward() {
    work_.backward({ModulePart::fc2, ModulePart::activation, ModulePart::fc1});
  }
  void allgather_experts_forward();
  void allgather_experts_backward();
  /// Tags of the calls around the experts, in their order.
  struct ExpertTags {
    std::string_view there;
    std::string_view gathered;
    std::string_view scattered;
    std::string_view back;
  };
  void exchange_hidden_shards() const;
  void pass_through_experts(const ExpertTags& tags, void (Chunk::*compute)());
  void alltoall_experts_forward();
  void expert_all_to_all(Elements routed, std::string_view tag) const;
  void alltoall_experts_backward();

  ProgramBuilder& out_;
  const Job& job_;
  ModelWork work_;
  Part part_;
  std::int64_t ranks_;       // t
  std::int64_t activation_;  // b s h
  bool sequence_parallel_;
  std::int64_t tokens_;  // of one rank's share: b s, divided by t under sequence parallelism
  GroupId experts_;      // ep consecutive data ranks
  GroupId dispatch_;     // tp x ep, the group of the allgather dispatcher
};

}  // namespace commlens::megatron
