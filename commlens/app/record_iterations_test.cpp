#include "commlens/app/record_iterations.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Calls = std::vector<std::uint32_t>;

Calls repeated(const Calls& before, const Calls& part, int times, const Calls& after) {
  Calls calls = before;
  for (int time = 0; time < times; ++time) {
    calls.insert(calls.end(), part.begin(), part.end());
  }
  calls.insert(calls.end(), after.begin(), after.end());
  return calls;
}

TEST(RepeatingPart, StartsAfterCallsThatOccurOnce) {
  // 7 8 | 1 2 3 five times
  EXPECT_EQ(repeating_part(repeated({7, 8}, {1, 2, 3}, 5, {})), (RepeatingPart{2, 3, 5}));
}

TEST(RepeatingPart, ExcludesLastCalls) {
  EXPECT_EQ(repeating_part(repeated({7}, {1, 2, 2}, 6, {9, 9})), (RepeatingPart{1, 3, 6}));
}

TEST(RepeatingPart, IsTheShortestOne) {
  // 1 2 1 2 repeated twice is 1 2 four times.
  EXPECT_EQ(repeating_part(repeated({}, {1, 2, 1, 2}, 2, {})), (RepeatingPart{0, 2, 4}));
}

TEST(RepeatingPart, TwiceIsNotEnough) { EXPECT_FALSE(repeating_part(repeated({}, {1, 2, 3}, 2, {}))); }

TEST(RepeatingPart, MustCoverHalfOfTheCalls) {
  // Three times 4, after seven calls that are all different.
  EXPECT_FALSE(repeating_part(repeated({10, 11, 12, 13, 14, 15, 16}, {4}, 3, {})));
}

TEST(RepeatingPart, NoCallsDoNotRepeat) { EXPECT_FALSE(repeating_part({})); }

TEST(CommonParts, PutsSeveralPeriodsOfARankIntoOneIteration) {
  // Rank 0 repeats 3 calls 5 times, rank 1 a single call 10 times: two of those are one iteration.
  const std::vector<RepeatingPart> parts = common_parts({RepeatingPart{2, 3, 5}, RepeatingPart{1, 1, 10}});
  EXPECT_EQ(parts, (std::vector<RepeatingPart>{{2, 3, 5}, {1, 2, 5}}));
}

TEST(CommonParts, LeavesRepeatsOverAtTheStart) {
  // 11 = 5 * 2 + 1: the first of the eleven belongs to initialisation.
  const std::vector<RepeatingPart> parts = common_parts({RepeatingPart{0, 3, 5}, RepeatingPart{4, 1, 11}});
  EXPECT_EQ(parts, (std::vector<RepeatingPart>{{0, 3, 5}, {5, 2, 5}}));
}

TEST(CommonParts, NeedsEveryRank) {
  EXPECT_TRUE(common_parts({RepeatingPart{0, 3, 5}, std::nullopt}).empty());
}

TEST(CommonParts, RefusesNumbersThatDoNotFit) {
  // 9 = 5 * 1 + 4: four left over where one makes an iteration.
  EXPECT_TRUE(common_parts({RepeatingPart{0, 3, 5}, RepeatingPart{0, 1, 9}}).empty());
}

}  // namespace
}  // namespace commlens
