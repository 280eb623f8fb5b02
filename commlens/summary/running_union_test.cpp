#include "commlens/summary/running_union.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Intervals of 3 to 9 ns that start every 10 ns, each seventh swapped with the next one.
std::vector<Interval> swapped_stretches(std::int64_t count) {
  std::vector<Interval> stretches;
  for (std::int64_t at = 0; at < count; ++at) {
    stretches.push_back({nanoseconds(10 * at), nanoseconds(10 * at + 3 + at % 7)});
  }
  for (std::size_t at = 0; at + 1 < stretches.size(); at += 7) {
    std::swap(stretches[at], stretches[at + 1]);
  }
  return stretches;
}

/// The second method: all of them sorted by start.
nanoseconds length_of_union(std::vector<Interval> stretches) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Interval& a, const Interval& b) { return a.started < b.started; });
  nanoseconds length{};
  nanoseconds end = nanoseconds::min();
  for (const Interval& stretch : stretches) {
    length += std::max(stretch.finished, end) - std::max(stretch.started, end);
    end = std::max(end, stretch.finished);
  }
  return length;
}

TEST(RunningUnion, StaysSmallWhereNeighboursComeInTheWrongOrder) {
  const std::vector<Interval> stretches = swapped_stretches(800'000);
  RunningUnion united;
  std::size_t most = 0;
  for (const Interval& stretch : stretches) {
    united.add(stretch);
    most = std::max(most, united.size());
  }
  EXPECT_LE(most, 4096U);
  EXPECT_TRUE(united.is_exact());
  EXPECT_EQ(united.take(), length_of_union(stretches));
}

TEST(RunningUnion, StaysSmallAndSaysSoWhereAllComeBackwards) {
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
