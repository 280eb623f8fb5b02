#pragma once
#include "commlens/frameworks/commlens/flat_units.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::trainer {

/// What a module of our trainer computes for one micro-batch, and sends on its tensor-parallel group: nothing
/// for t = 1, else calls that it waits for at once. The caller sets the phase. Source:
/// docs/training.md#tensor-parallel.
class TensorParallelModules {
 public:
  /// Both references outlive it.
  TensorParallelModules(ProgramBuilder& out, const Job& job);

  void forward(ModuleRole role);
  void backward(ModuleRole role);
  /// Brings a block's stored input back from its tensor-parallel parts.
  void gather_kept_input() const;

 private:
  void forward_block();
  void backward_block();
  void forward_head();
  void backward_head();
  void loss_call(const char* tag) const;
  void all_reduce(const Rule& rule, std::string_view tag) const;
  void gather(const Rule& rule, std::string_view tag) const;   // [b, s/t, h] -> [b, s, h]
  void scatter(const Rule& rule, std::string_view tag) const;  // [b, s, h] -> [b, s/t, h]
  void replicated_gradients(std::int64_t count, std::string_view tag) const;

  ProgramBuilder& out_;
  const Job& job_;
  ModelWork work_;
  std::int64_t ranks_;       // t
  std::int64_t activation_;  // b s h
  bool sequence_parallel_;
};

}  // namespace commlens::trainer
