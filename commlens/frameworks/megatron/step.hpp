#pragma once
#include "commlens/frameworks/megatron/gradient_sync.hpp"
#include "commlens/frameworks/megatron/parameter_shards.hpp"
#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// finalize_model_grads: what is left of the gradients.
void write_final_gradients(const StageContext& stage, GradientSync& gradients);

/// Which step of an optimizer one is.
struct StepKind {
  bool is_first = false;
  bool overflows = false;  // and is skipped
};

/// The rerun state machine, the optimizer and the statistics of its step.
/// `shards` is null where no parameters are sharded.
void write_step(const StageContext& stage, GradientSync& gradients, ParameterShards* shards, StepKind kind);

/// training_log. `is_logged`: of an iteration whose times are printed.
void write_log(const StageContext& stage, bool is_logged);

/// The vote on exit-duration-in-mins, also of each iteration of an evaluation.
void write_time_limit(const StageContext& stage);
/// Signals and the time limit, at the end of an iteration.
void write_exit_checks(const StageContext& stage);

}  // namespace commlens::megatron
