#pragma once
#include "commlens/model/job.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::neox {

/// What one stage of GPT-NeoX computes, and sends on its tensor-parallel group, for one micro-batch. All
/// calls are waited for at once (megatron/mpu/mappings.py). Source: rules/neox_megatron.md §1.1-1.3, §2
/// (sequence parallelism of 8b43196f), §8.
class TensorParallelStage {
 public:
  struct Part {
    std::int64_t layers = 0;
    bool is_first = true;  // embedding
    bool is_last = true;   // unembedding and cross entropy
    bool has_final_norm = true;
  };
  TensorParallelStage(ProgramBuilder& out, const Job& job, Part part);

  /// Two broadcasts: sizes, then tokens. Issued on one-rank groups too.
  void load() const;
  void forward(std::int32_t micro_batch);
  /// Backward with the recomputation of checkpointed layers, piece by piece.
  void start_backward(std::int32_t micro_batch);
  /// Until all gradients of `layer` (of the stage) are ready; -1: those outside the layers before them.
  void backward_until(std::int64_t layer);
  void end_backward();
  void backward(std::int32_t micro_batch) {
    start_backward(micro_batch);
    end_backward();
  }

 private:
  void forward_layer();
  void backward_one_layer(std::int64_t layer);
  void backward_layer();
  void backward_layer_sequence_parallel();
  void backward_head();
  void all_reduce(std::string_view tag, bool is_forward) const;
  void gather(std::string_view tag) const;          // [b, s/t, h] -> [b, s, h]
  void reduce_scatter(std::string_view tag) const;  // [b, s, h] -> [b, s/t, h]
  void norm_gradients(int parameters) const;

  ProgramBuilder& out_;
  const Job& job_;
  ModelWork work_;
  Part part_;
  std::int64_t ranks_;       // t
  std::int64_t activation_;  // b s h
  DType reduce_dtype_;       // of activation all_reduces
  bool sequence_parallel_;
  std::int64_t next_layer_ = 0;  // of the backward pass under way
  bool is_backward_ = false;
};

}  // namespace commlens::neox
