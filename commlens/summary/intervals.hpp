#pragma once
#include <chrono>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// Intervals of time as a set of points: ascending, none empty, no two that overlap or touch. Everything here
/// is exact (integers of nanoseconds) and takes time linear in the number of intervals, but for the sorting
/// in united(). An interval holds its start and not its end.
using Intervals = std::vector<Interval>;

/// The points in at least one of `any`, which may come in any order, overlap, touch and be empty.
Intervals united(Intervals any);
/// The points in `a`, in `b` or in both.
Intervals united(const Intervals& a, const Intervals& b);
/// The points in `a` and not in `b`.
Intervals difference(const Intervals& a, const Intervals& b);

/// The length of a set.
std::chrono::nanoseconds length(const Intervals& intervals);
/// The length of the set of the points in `a` and in `b`.
std::chrono::nanoseconds common_length(const Intervals& a, const Intervals& b);

}  // namespace commlens
