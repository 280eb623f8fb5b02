#include "commlens/summary/running_union.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Intervals of 3 to 9 ns that start every 10 ns, each seventh swapped with the next one.
std::vector<Interval> swapped_intervals(std::int64_t count) {
  std::vector<Interval> intervals;
  for (std::int64_t at = 0; at < count; ++at) {
    intervals.push_back({nanoseconds(10 * at), nanoseconds(10 * at + 3 + at % 7)});
  }
  for (std::size_t at = 0; at + 1 < intervals.size(); at += 7) {
    std::swap(intervals[at], intervals[at + 1]);
  }
  return intervals;
}

/// The second method: all of them sorted by start.
nanoseconds length_of_union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.started < b.started; });
  nanoseconds length{};
  nanoseconds end = nanoseconds::min();
  for (const Interval& interval : intervals) {
    length += std::max(interval.finished, end) - std::max(interval.started, end);
    end = std::max(end, interval.finished);
  }
  return length;
}

TEST(RunningUnion, StaysSmallWhereNeighboursComeInTheWrongOrder) {
  const std::vector<Interval> intervals = swapped_intervals(800'000);
  RunningUnion united;
  std::size_t most = 0;
  for (const Interval& interval : intervals) {
    united.add(interval);
    most = std::max(most, united.size());
  }
  EXPECT_LE(most, 4096U);
  EXPECT_TRUE(united.is_exact());
  EXPECT_EQ(united.take(), length_of_union(intervals));
}

TEST(RunningUnion, StaysSmallAndIsInexactIfAllAreDescending) {
  RunningUnion united;
  std::size_t most = 0;
  for (std::int64_t at = 100'000; at > 0; --at) {
    united.add({nanoseconds(10 * at), nanoseconds(10 * at + 5)});
    most = std::max(most, united.size());
  }
  EXPECT_LE(most, 4096U);
  EXPECT_FALSE(united.is_exact());
}

}  // namespace
}  // namespace commlens
