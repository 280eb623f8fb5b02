#pragma once
#include "commlens/model/job.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// What one model chunk of Megatron core sends for one micro-batch besides pipeline messages: tensor and
/// sequence parallelism, recomputation, token dispatch of experts. Source: rules/neox_megatron.md §3,
/// §8.17-8.22.
class Chunk {
 public:
  struct Part {
    std::int64_t layers = 0;
    bool is_first = true;  // embedding
    bool is_last = true;   // unembedding and cross entropy
  };
  Chunk(ProgramBuilder& out, const Job& job, Part part);

  void forward(std::int32_t micro_batch) const;
  void backward(std::int32_t micro_batch) const;

 private:
  bool is_moe() const { return job_.model.experts > 0; }
  bool recomputes(std::int64_t layer) const;
  void write_recompute(std::int64_t layer, std::int32_t micro_batch) const;
  void forward_layer() const;
  void backward_layer() const;
  void forward_all_reduce(std::string_view tag) const;
  void column_forward(std::string_view tag) const;   // sequence parallel: gather of the input
  void row_forward(std::string_view tag) const;      // all_reduce, or reduce_scatter of the output
  void column_backward(std::string_view tag) const;  // all_reduce, or re-gather and reduce_scatter
  void row_backward(std::string_view tag) const;     // sequence parallel: gather of the output gradient
  void experts_forward() const;
  void experts_backward() const;
  void allgather_experts_forward() const;
  void allgather_experts_backward() const;
  void alltoall_experts_forward() const;
  void expert_all_to_all(Elements routed, std::string_view tag) const;
  void alltoall_experts_backward() const;

  ProgramBuilder& out_;
  const Job& job_;
  Part part_;
  std::int64_t ranks_;       // t
  std::int64_t activation_;  // b s h
  bool sequence_parallel_;
  std::int64_t tokens_;  // of one rank's share: b s, divided by t under sequence parallelism
  GroupId experts_;      // ep consecutive data ranks
  GroupId dispatch_;     // tp x ep, the group of the allgather dispatcher
};

}  // namespace commlens::megatron
