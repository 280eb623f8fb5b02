#pragma once
#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// Start and iterations of ZeRO stage 3 until they repeat for ever (a simulation of its parameter
/// coordinator: trace, prefetch, reuse, persistence).
struct Zero3Programs {
  Program init;
  std::vector<Program> iterations;
};
Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank);

}  // namespace commlens::deepspeed
