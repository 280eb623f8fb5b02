#pragma once
#include <string>
#include <vector>

#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// Start and iterations of ZeRO stage 3 until they repeat for ever (a simulation of its parameter
/// coordinator: trace, prefetch, reuse, persistence).
struct Zero3Programs {
  Program init;
  std::vector<Program> iterations;
  std::string refusal;  // why DeepSpeed fails on them; empty: it does not
};

/// `period`: after how many iterations what the client sends repeats; so many programs are the last.
Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank, std::int64_t period = 1);

}  // namespace commlens::deepspeed
