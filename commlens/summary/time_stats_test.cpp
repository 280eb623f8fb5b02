#include "commlens/summary/time_stats.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

DurationStats stats_of(const std::vector<std::int64_t>& durations, std::int64_t ranks = 1) {
  DurationStats stats;
  for (const std::int64_t duration : durations) {
    stats.add(nanoseconds(duration), ranks);
  }
  return stats;
}

TEST(MedianInterval, HasTheRanksOfTheTables) {
  // P(B <= k) of n fair coins by hand: n = 6: k = 0: 1/64 = 1.6 %; k = 1: 7/64. n = 9: k = 1: 10/512 = 2.0 %,
  // k = 2: 46/512 = 9.0 %. n = 20: k = 5: 21,700/1,048,576 = 2.07 %, k = 6: 5.8 %. The others are of the
  // table of nonparametric confidence intervals of a median (Conover, Practical Nonparametric Statistics,
  // A3).
  EXPECT_EQ(median_interval_rank(5), 0);
  EXPECT_EQ(median_interval_rank(6), 1);
  EXPECT_EQ(median_interval_rank(8), 1);
  EXPECT_EQ(median_interval_rank(9), 2);
  EXPECT_EQ(median_interval_rank(20), 6);
  EXPECT_EQ(median_interval_rank(25), 8);
  EXPECT_EQ(median_interval_rank(100), 40);
}

TEST(MedianInterval, NarrowsWithTheRootOfTheNumber) {
  for (const std::int64_t samples : {std::int64_t{10'000}, std::int64_t{1'000'000}, std::int64_t{1} << 40}) {
    const auto n = static_cast<double>(samples);
    EXPECT_NEAR(static_cast<double>(median_interval_rank(samples)), (n - 1.96 * std::sqrt(n)) / 2,
                1 + 1e-4 * std::sqrt(n))
        << samples;
  }
}

TEST(DurationStats, OfNothingAreAbsent) { EXPECT_FALSE(DurationStats().stats().has_value()); }

TEST(DurationStats, OfOneCallAreThatCall) {
  const TimeStats stats = stats_of({70}).stats().value();
  EXPECT_EQ(stats.calls, 1);
  EXPECT_EQ(stats.total, nanoseconds(70));
  for (const auto& time : {stats.shortest, stats.longest, stats.p50, stats.p95}) {
    EXPECT_EQ(time, nanoseconds(70));
  }
  EXPECT_FALSE(stats.has_interval);
  EXPECT_TRUE(stats.exact);
}

TEST(DurationStats, AreTheNearestRanks) {
  // 10, 20, … 200 in any order: P50 is the 10th, P95 the 19th, the interval the 6th and the 15th.
  std::vector<std::int64_t> durations;
  for (std::int64_t value = 200; value >= 10; value -= 10) {
    durations.push_back(value);
  }
  std::shuffle(durations.begin(), durations.end(), std::mt19937(3));
  const TimeStats stats = stats_of(durations).stats().value();
  EXPECT_EQ(stats.total, nanoseconds(2100));
  EXPECT_EQ(stats.shortest, nanoseconds(10));
  EXPECT_EQ(stats.longest, nanoseconds(200));
  EXPECT_EQ(stats.p50, nanoseconds(100));
  EXPECT_EQ(stats.p50_low, nanoseconds(60));
  EXPECT_EQ(stats.p50_high, nanoseconds(150));
  EXPECT_EQ(stats.p95, nanoseconds(190));
  EXPECT_TRUE(stats.has_interval);
}

TEST(DurationStats, OfAnOddNumberHaveTheMiddleOne) {
  EXPECT_EQ(stats_of({3, 1, 2}).stats()->p50, nanoseconds(2));
  EXPECT_EQ(stats_of({4, 3, 1, 2}).stats()->p50, nanoseconds(2));
  EXPECT_EQ(stats_of({4, 3, 1, 2}).stats()->p95, nanoseconds(4));
}

TEST(DurationStats, OfManyRanksCountEach) {
  // Three calls that four ranks make alike: twelve calls, but an interval only of what is independent.
  const TimeStats stats = stats_of({10, 20, 30}, 4).stats().value();
  EXPECT_EQ(stats.calls, 12);
  EXPECT_EQ(stats.total, nanoseconds(240));
  EXPECT_EQ(stats.p50, nanoseconds(20));
  EXPECT_FALSE(stats.has_interval);
}

TEST(DurationStats, OfClassesOfDifferentSizesAreWeighted) {
  DurationStats stats = stats_of({10}, 1);
  stats.merge(stats_of({50}, 3));
  EXPECT_EQ(stats.stats()->calls, 4);
  EXPECT_EQ(stats.stats()->total, nanoseconds(160));
  EXPECT_EQ(stats.stats()->p50, nanoseconds(50));  // of 10, 50, 50, 50 the second
  stats.add(nanoseconds(5), 9);
  EXPECT_EQ(stats.stats()->p50, nanoseconds(5));
}

/// Durations between 1 ns and a minute, each order of magnitude as likely as any other.
std::vector<std::int64_t> random_durations(std::size_t count) {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> logarithm(0.0, std::log(6e10));
  std::vector<std::int64_t> durations(count);
  std::generate(durations.begin(), durations.end(),
                [&] { return static_cast<std::int64_t>(std::exp(logarithm(random))); });
  return durations;
}

void expect_within(nanoseconds found, std::int64_t exact) {
  EXPECT_LE(std::abs(static_cast<double>(found.count() - exact)),
            k_quantile_error * static_cast<double>(exact))
      << found.count() << " for " << exact;
}

TEST(DurationStats, AreExactBelowAMillionCalls) {
  std::vector<std::int64_t> durations = random_durations(k_exact_samples - 1);
  const TimeStats stats = stats_of(durations).stats().value();
  std::sort(durations.begin(), durations.end());
  EXPECT_TRUE(stats.exact);
  EXPECT_EQ(stats.p50, nanoseconds(durations[499'999]));
  EXPECT_EQ(stats.p95, nanoseconds(durations[949'999]));
}

TEST(DurationStats, StayWithinOnePercentAboveAMillionCalls) {
  std::vector<std::int64_t> durations = random_durations(k_exact_samples);
  const TimeStats stats = stats_of(durations).stats().value();
  std::sort(durations.begin(), durations.end());
  EXPECT_FALSE(stats.exact);
  EXPECT_EQ(stats.shortest, nanoseconds(durations.front()));
  EXPECT_EQ(stats.longest, nanoseconds(durations.back()));
  expect_within(stats.p50.value(), durations[499'999]);
  expect_within(stats.p95.value(), durations[949'999]);
  const auto rank = static_cast<std::size_t>(median_interval_rank(k_exact_samples));
  expect_within(stats.p50_low, durations[rank - 1]);
  expect_within(stats.p50_high, durations[durations.size() - rank]);
}

/// A million calls of 0 ns, and one that outweighs them: the histogram may say at most 1 % more or less of
/// it.
TEST(DurationStats, RepresentEveryMagnitudeWithinOnePercent) {
  DurationStats zeros;
  for (std::int64_t call = 0; call < k_exact_samples; ++call) {
    zeros.add(nanoseconds(0));
  }
  for (std::int64_t value = 0; value < INT64_MAX / 16; value += value / 8 + 1) {
    DurationStats stats = zeros;
    stats.add(nanoseconds(INT64_MAX / 2));  // or the longest would hide what the histogram says
    stats.add(nanoseconds(value), 2 * k_exact_samples);
    ASSERT_FALSE(stats.stats()->exact);
    expect_within(stats.stats()->p50.value(), value);
  }
}

TEST(DurationStats, MergeToTheStatsOfAll) {
  const std::vector<std::int64_t> all = random_durations(1'400'000);
  const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return stats_of({all.begin() + begin, all.begin() + end});
  };
  DurationStats small = part(0, 300'000);
  small.merge(part(300'000, 500'000));
  EXPECT_EQ(small.stats(), part(0, 500'000).stats());
  small.merge(part(500'000, 1'400'000));
  EXPECT_EQ(small.stats(), stats_of(all).stats());
  DurationStats large = part(0, 1'200'000);
  large.merge(part(1'200'000, 1'400'000));
  EXPECT_EQ(large.stats(), stats_of(all).stats());
}

TEST(DurationStats, MakeAHistogramWhereItTakesLessThanTheDurations) {
  // 64 counters hold 64 to 127 ns.
  const std::vector<std::int64_t> durations(64, 100);
  DurationStats stats = stats_of(durations);
  stats.save_memory();
  EXPECT_EQ(stats.held(), 64);
  EXPECT_TRUE(stats.stats()->exact);
  stats.add(nanoseconds(120));
  stats.save_memory();
  EXPECT_EQ(stats.held(), 64);
  EXPECT_FALSE(stats.stats()->exact);
}

TEST(DurationStats, AreKeptWhereTheHistogramWouldTakeMore) {
  // 1 ns is in the first 64 counters; 10^9 ns is above 2^29, the 23rd power of two from 2^7 on, each of which
  // has 64, and 128 counters are below: 25 times 64 = 1600.
  DurationStats stats = stats_of(std::vector<std::int64_t>(1599, 1));
  stats.add(nanoseconds(1'000'000'000));
  stats.save_memory();
  EXPECT_EQ(stats.held(), 1600);
  EXPECT_TRUE(stats.stats()->exact);
  DurationStats more = stats;
  more.add(nanoseconds(1));
  more.save_memory();
  EXPECT_EQ(more.held(), 1600);
  EXPECT_FALSE(more.stats()->exact);
}

TEST(DurationStats, OfNothingSaveNothing) {
  DurationStats stats;
  stats.save_memory();
  EXPECT_EQ(stats.held(), 0);
}

}  // namespace
}  // namespace commlens
