#pragma once
#include <cstdint>
#include <vector>

#include "commlens/summary/intervals.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One iteration of a rank: its calls, the time from the first start to the last end of its calls and
/// computing, and the rank's compute intervals in that time (of any iteration).
struct IterationPart {
  Iteration iteration = 0;
  std::vector<std::uint32_t> calls;  // rows of the stream's events, in issue order
  Interval span;
  Intervals compute;
};

/// The iterations of a stream that are selected, ascending (the unknown one first). Empty when the stream has
/// calls without times.
std::vector<IterationPart> iteration_parts(const RankStream& stream, const TimeSelection& selection);

}  // namespace commlens
