#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/frameworks/commlens/flat_units.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::trainer {

/// What one chunk of our trainer sends to share its parameters and gradients among data ranks: DDP, ZeRO 1-3,
/// ZeRO++; nothing for d = 1. Gathers and reductions run beside the computing until it needs them, but those
/// of qgZ. The caller sets the phase. Source: docs/training.md#data-parallel.
class ChunkUnits {
 public:
  /// `out` and `job` outlive it.
  ChunkUnits(ProgramBuilder& out, const Job& job, const HeldChunk& chunk);

  /// Around the modules of one micro-batch, by their index in the chunk. `stays`: backward of the same module
  /// follows at once. Gathers of the next module come before what this one sends, as with `--prefetch`.
  void before_forward(std::size_t module);
  void after_forward(std::size_t module, bool stays);
  void before_backward(std::size_t module);
  void after_backward(std::size_t module, bool is_last_micro_batch);
  void end_backward();
  /// Before the update: all reductions have ended.
  void finish_reductions();
  /// Elements that this rank updates.
  std::int64_t updated() const;

  /// After the reductions: the copies of a tied table at both ends of the pipeline.
  void sum_tied_gradient() const;
  /// After the update.
  void share_updated() const;

 private:
  void gather_module(std::size_t module, std::int64_t next, bool is_for_backward);
  void gather(std::size_t unit, bool is_for_backward);
  void reduce(const FlatUnit& unit);
  void reduce_quantized(const FlatUnit& unit) const;
  GroupId block() const;   // hpz consecutive data ranks
  GroupId stride() const;  // data ranks at the same position in their block

  ProgramBuilder& out_;
  const Job& job_;
  int stage_;
  std::int64_t ranks_;  // d
  std::vector<FlatUnit> units_;
  std::vector<std::vector<std::size_t>> of_module_;  // stages 0-2: all units it touches; 3: those it gathers
  std::vector<std::int64_t> modules_left_;           // per unit, until its gradients are complete
  std::vector<bool> is_gathered_;
  std::vector<std::optional<StepIndex>> gathers_;  // by unit: under way, nothing waits for it yet
  std::vector<StepIndex> reductions_;              // under way
};

}  // namespace commlens::trainer
