#pragma once
#include <optional>
#include <utility>

#include "commlens/app/replay.hpp"
#include "commlens/bench/replay_plan.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// An original, and the part of it that was replayed.
struct ReplayedPart {
  const Trace& trace;
  const bench::ReplayPlan& plan;
  bench::ReplaySelection selection;
};

/// Compares a recording with what it replayed: calls, times by op, makespans. `result` has the pacing.
void add_comparison(const ReplayedPart& original, const Trace& recording, ReplayResult& result);

}  // namespace commlens
