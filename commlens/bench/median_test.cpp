#include "commlens/bench/median.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace commlens::bench {
namespace {

std::vector<double> one_to(std::size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// 30 values: 1.96 sqrt 30 = 10.735; floor(9.63) = 9, 1 + ceil(20.37) = 22.
TEST(MedianInterval, OfThirtyValuesIsTheNinthToTheTwentySecond) {
  const auto interval = median_interval(one_to(30));
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->median, 15.5);
  EXPECT_EQ(interval->low, 9);
  EXPECT_EQ(interval->high, 22);
}

// 100 values: 1.96 x 10 = 19.6; floor(40.2) = 40, 1 + ceil(59.8) = 61.
TEST(MedianInterval, OfAHundredValuesIsTheFortiethToTheSixtyFirst) {
  const auto interval = median_interval(one_to(100));
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->median, 50.5);
  EXPECT_EQ(interval->low, 40);
  EXPECT_EQ(interval->high, 61);
}

TEST(MedianInterval, NeedsThirtyValues) { EXPECT_FALSE(median_interval(one_to(29))); }

// Binomial (N, 1/2): none below the median with 1/64 of N = 6, 1/32 of N = 5; at most one with 10/512 of N =
// 9 and 11/1024 of N = 10, at most two with 56/1024.
TEST(ExactMedianInterval, OfFewValuesLeavesTheOutermostOut) {
  struct Expected {
    int count;
    double low;
    double high;
  };
  for (const Expected& each : {Expected{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}}) {
    const auto interval = exact_median_interval(one_to(each.count));
    ASSERT_TRUE(interval) << each.count;
    EXPECT_EQ(interval->low, each.low) << each.count;
    EXPECT_EQ(interval->high, each.high) << each.count;
    EXPECT_EQ(interval->median, (1 + each.count) / 2.0) << each.count;
  }
  EXPECT_FALSE(exact_median_interval(one_to(5)));
  EXPECT_FALSE(exact_median_interval({}));
}

// Of 100 values, exactly: at most 39 below the median with 0.0176, at most 40 with 0.0284.
TEST(ExactMedianInterval, OfAHundredValuesIsTheFortiethToTheSixtyFirst) {
  const auto interval = exact_median_interval(one_to(100));
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, 40);
  EXPECT_EQ(interval->high, 61);
}

TEST(Quantile, IsBetweenNeighbours) {
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_EQ(quantile(values, 0), 10);
  EXPECT_EQ(quantile(values, 0.5), 25);
  EXPECT_EQ(quantile(values, 1), 40);
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.95), 7);
}

}  // namespace
}  // namespace commlens::bench
