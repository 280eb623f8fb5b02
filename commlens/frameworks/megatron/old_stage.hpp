#pragma once
#include <cstdint>

#include "commlens/model/parameters.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// An iteration of one pipeline stage: the schedule, gradients, norm, update and parameter gathers. All
/// iterations are equal. Source: docs/rules.md#megatron-megatron-lm-core_v070.
Program stage_iteration(ProgramBuilder& out, const Job& job, const ParameterList& all, std::int64_t stage);

}  // namespace commlens::megatron
