#pragma once
#include <chrono>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// The iterations of a trace without initialisation, ascending. They need not start at 0 or follow each
/// other.
std::vector<Iteration> training_iterations(const Trace& trace);

/// The first of them, which is cold; INT32_MAX, so that none comes after it, when there is none.
Iteration cold_iteration(const Trace& trace);

/// finished - started; 0 when that is negative, held at the largest integer: a foreign file may claim any
/// time.
std::chrono::nanoseconds time_between(std::chrono::nanoseconds started, std::chrono::nanoseconds finished);

/// How long an iteration took.
struct Step {
  Iteration iteration = 0;
  std::chrono::nanoseconds length{};
};

/// The steps of a stream with times: from the first call of an iteration to the first one of the next.
/// Iterations up to `cold` and the last one have none.
std::vector<Step> steps_after(Iteration cold, const RankStream& stream);

}  // namespace commlens
