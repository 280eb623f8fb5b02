#pragma once
#include <cstdint>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// An iteration like others, far from the first one.
constexpr Iteration k_repeated = INT32_MAX - 1;

/// Of the latest calls of a job that marks no iterations: those that each rank repeats (repeating_part()),
/// once, as iteration k_repeated. They begin anywhere in an iteration, another place on each rank. Fails
/// where a rank repeats none, or members of a group do not repeat equally many calls on it.
Result<Trace> repeated_iteration(Trace latest);

}  // namespace commlens
