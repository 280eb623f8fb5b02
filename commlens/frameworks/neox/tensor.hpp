#pragma once
#include "commlens/model/job.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::neox {

/// What one stage of GPT-NeoX sends on its tensor-parallel group for one micro-batch.
/// Source: rules/neox_megatron.md §1.1-1.3, §2 (sequence parallelism of 8b43196f), §8.
class TensorParallelStage {
 public:
  struct Part {
    std::int64_t layers = 0;
    bool is_first = true;  // embedding
    bool is_last = true;   // unembedding and cross entropy
  };
  TensorParallelStage(ProgramBuilder& out, const Job& job, Part part);

  /// Two broadcasts: sizes, then tokens. Issued on one-rank groups too.
  void load() const;
  void forward(std::int32_t micro_batch) const;
  /// Backward with the recomputation of checkpointed layers.
  void backward(std::int32_t micro_batch) const;

 private:
  void forward_layer() const;
  void backward_layer() const;
  void backward_layer_sequence_parallel() const;
  void all_reduce(std::string_view tag, bool is_forward) const;
  void gather(std::string_view tag) const;          // [b, s/t, h] -> [b, s, h]
  void reduce_scatter(std::string_view tag) const;  // [b, s, h] -> [b, s/t, h]
  void norm_gradients(int parameters) const;

  ProgramBuilder& out_;
  const Job& job_;
  Part part_;
  std::int64_t ranks_;       // t
  std::int64_t activation_;  // b s h
  DType reduce_dtype_;       // of activation all_reduces
  bool sequence_parallel_;
};

}  // namespace commlens::neox
