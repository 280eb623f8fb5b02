#pragma once
#include "commlens/plan/rules/deepspeed_engine.hpp"

namespace commlens::deepspeed {

/// Start, `iterations` iterations of ZeRO stage 3 (a simulation of its parameter coordinator: trace,
/// prefetch, reuse, persistence), as programs in order. Source: rules/deepspeed.md B1, B4, B5, B6.
struct Zero3Programs {
  Program init;
  std::vector<Program> iterations;
};
Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank, int iterations);

}  // namespace commlens::deepspeed
