#pragma once
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/bench/replay_plan.hpp"

namespace commlens::bench {

/// Finds which calls of a plan's ranks belong together, and gives calls of unequal parts these parts. Fails
/// where a call lacks a counterpart, or its counterpart has another op, type, root or size.
Result<void> match_calls(ReplayPlan& plan);

/// What each rank sends to each other one in an exchange of which only the sums are known: of rank i in row
/// i, in proportion to what the receiver gets. Both have the same sum, and as many entries.
std::vector<std::vector<Elements>> shared_parts(std::span<const Elements> sent,
                                                std::span<const Elements> received);

}  // namespace commlens::bench
