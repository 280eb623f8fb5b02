#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/bench/replay_plan.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::bench {

/// Issues and waits of a rank whose calls have `times`, in the order of their issue; it begins at `begin`.
///
/// A call is waited for before the first issue that is not earlier than its end. Busy is the time since the
/// last thing that the rank waited for or issued. A call that ended while the rank computed, as far as
/// `compute` (ascending) is known, did not hold the rank up: it is waited for right before that issue, and
/// the rank is busy from its last step on.
std::vector<ReplayStep> timed_steps(std::span<const Times> times, std::span<const ComputeInterval> compute,
                                    std::chrono::nanoseconds begin);

/// Each call is waited for at once.
std::vector<ReplayStep> steps_without_times(std::size_t calls);

}  // namespace commlens::bench
