#pragma once
#include <cstdint>
#include <functional>

#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// The last iteration that the options single out: an evaluation before it, an overflow, a checkpoint. -1:
/// none.
std::int64_t last_special_iteration(const Job& job);

/// engine.save_checkpoint(): ranks compare the checkpoint's tag; `inner` is what the optimizer does then.
/// Source: runtime/engine.py:4858 of 0.19.8.
void write_checkpoint(ProgramBuilder& out, const EngineRank& rank, const std::function<void()>& inner);

/// partition_activations: one gather of the checkpointed input of each of so many blocks (rules B9).
void write_checkpoint_gathers(ProgramBuilder& out, std::int64_t layers);

}  // namespace commlens::deepspeed
