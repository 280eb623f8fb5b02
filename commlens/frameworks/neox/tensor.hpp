#pragma once
#include <span>

#include "commlens/model/job.hpp"
#include "commlens/plan/model_work.hpp"
#include "commlens/trace/rule_book.hpp"

namespace commlens::neox {

/// What the rules of its calls mean.
std::span<const RuleRow> tensor_causes();

/// What one stage of GPT-NeoX computes, and sends on its tensor-parallel group, for one micro-batch. All
/// calls are waited for at once (megatron/mpu/mappings.py).
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
  void backward_head();
  void all_reduce(std::string_view tag, bool is_forward) const;

  ProgramBuilder& out_;
  const Job& job_;
  ModelWork work_;
  Part part_;
  std::int64_t ranks_;           // t
  std::int64_t activation_;      // b s h
  DType reduce_dtype_;           // of activation all_reduces
  std::int64_t next_layer_ = 0;  // of the backward pass under way
  bool is_backward_ = false;
};

}  // namespace commlens::neox
