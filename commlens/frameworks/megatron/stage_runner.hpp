#pragma once
#include <optional>
#include <vector>

#include "commlens/frameworks/megatron/gradient_sync.hpp"
#include "commlens/frameworks/megatron/parameter_shards.hpp"
#include "commlens/frameworks/megatron/passes.hpp"
#include "commlens/frameworks/megatron/schedules.hpp"
#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// Which of a training's iterations one is.
struct IterationKind {
  bool is_first = false;
  bool is_logged = false;
  bool is_evaluated = false;
  bool follows_evaluation = false;
  bool overflows = false;  // fp16: its step is skipped
  bool is_first_step = false;
};

/// Writes the iterations of one stage.
class StageRunner {
 public:
  /// `stage` outlives it.
  explicit StageRunner(const StageContext& stage);

  /// Ahead of the first iteration.
  void write_start();
  void write_iteration(const IterationKind& kind);

 private:
  void run(const std::vector<Action>& actions);
  void run_forward(const Action& action);
  void run_backward(const Action& action);
  void run_combined();
  ChunkPasses::Hook use_hook(std::int64_t chunk);
  ChunkPasses::Hook completion_hook(std::int64_t chunk, bool reduces);
  void run_exchange(const Exchange& exchange);
  void write_loss() const;
  void write_evaluation();
  std::vector<Action> actions(bool forward_only) const;
  void send(bool is_forward, bool is_batched);
  void receive(bool is_forward, bool is_batched);
  void set_phase(bool is_forward) const;
  Elements boundary() const;

  const StageContext& stage_;
  ProgramBuilder& out_;
  const Job& job_;
  std::vector<ChunkPasses> chunks_;
  std::optional<ParameterShards> shards_;  // instead of what `gradients_` does
  GradientSync gradients_;
  bool is_training_ = true;
  std::int32_t micro_batch_ = 0;
};

}  // namespace commlens::megatron
