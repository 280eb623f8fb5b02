#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::deepspeed {

/// The input of DeepSpeed's engine on one rank; the client framework (a plain script, GPT-NeoX) fills it in.
struct EngineRank {
  const Job* job = nullptr;
  LocalParameters parameters;    // of this rank, in named_parameters() order
  std::int64_t model_ranks = 1;  // tensor x pipeline ranks of one replica
  bool has_mpu = false;          // a model-parallel unit was given, or the pipeline engine runs
  bool has_pipeline_engine = false;
  /// Goes on with the backward pass under way until the gradient of a parameter is complete, or to its end;
  /// null where it is over when gradients are written.
  std::function<void(const LocalParameter&)> compute_until;
  std::function<void()> end_backward;
  bool zero3_computes = true;  // false where the client writes the computing of stage 3 itself
};

/// Which of DeepSpeed's optimizers wraps the client's.
enum class OptimizerPath { stage0, bf16, zero12, zero3 };
OptimizerPath optimizer_path(const Job& job);

/// The dtype of gradient reductions. Source: runtime/engine.py:826.
DType communication_dtype(const Job& job);

/// Broadcasts of all parameters at the start of training. Source: runtime/engine.py:1061.
void write_parameter_broadcasts(ProgramBuilder& out, const EngineRank& rank);

/// Gradient reductions of one micro-batch and the backward pass that they belong to (EngineRank). Stages 0-2;
/// `is_boundary` marks the last micro-batch of the step. Stage 3 has a writer of its own (zero3.hpp).
void write_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary);

/// Overflow flags, norms, the update and parameter gathers of the optimizer step, stages 0-2.
void write_step(ProgramBuilder& out, const EngineRank& rank);

/// What DeepSpeed 0.14.0 refuses, or what its rules do not cover, by name.
Result<void> check(const Job& job);

/// Settings of the job whose rules were only read in the source, never measured
/// (docs/rules.md#deepspeed-0140).
std::vector<std::string> unverified(const Job& job);

}  // namespace commlens::deepspeed
