#include "commlens/bench/row_stats.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/bench/median.hpp"

namespace commlens::bench {
namespace {

constexpr int k_series = 1000;
constexpr std::size_t k_samples = 200;
constexpr std::uint64_t k_seed = 20261127;

using Random = std::mt19937_64;

/// Log-normal times with median `median` and 5 % of scatter.
std::vector<double> clean(Random& random, double median) {
  std::lognormal_distribution<double> times(std::log(median), 0.05);
  std::vector<double> values(k_samples);
  std::generate(values.begin(), values.end(), [&] { return times(random); });
  return values;
}

/// Each time is 1.5 times as long with probability one half.
std::vector<double> of_two_modes(Random& random) {
  std::vector<double> values = clean(random, 1);
  std::bernoulli_distribution is_slow(0.5);
  for (double& value : values) {
    value *= is_slow(random) ? 1.5 : 1;
  }
  return values;
}

/// The times rise by 30 % from the first to the last.
std::vector<double> rising(Random& random) {
  std::vector<double> values = clean(random, 1);
  for (std::size_t at = 0; at < values.size(); ++at) {
    values[at] *= 1 + 0.3 * static_cast<double>(at) / static_cast<double>(values.size());
  }
  return values;
}

RowSamples samples_of(const std::vector<double>& times) {
  RowSamples samples;
  samples.span_s = times;
  samples.local_s = times;
  samples.skew_s.assign(times.size(), 0);
  samples.switches.assign(times.size(), 0);
  return samples;
}

bool has_flag(const RowStats& stats, RowFlag flag) {
  return std::find(stats.flags.begin(), stats.flags.end(), flag) != stats.flags.end();
}

template <typename Is>
int count_of(const Is& is) {
  int count = 0;
  for (int series = 0; series < k_series; ++series) {
    count += is() ? 1 : 0;
  }
  return count;
}

// The exact coverage of these order statistics of 200 values, the 86th and the 115th, is 0.9600 (binomial).
TEST(RowStats, HaveIntervalsThatCoverTheTrueMedianAsOftenAsTheySay) {
  Random random(k_seed);
  const auto covers = [](const std::vector<double>& values, double median) {
    const auto interval = median_interval(values);
    return interval && interval->low <= median && median <= interval->high;
  };
  const int covered = count_of([&] { return covers(clean(random, 3), 3); });
  EXPECT_GE(covered, 930) << "seed " << k_seed;
  EXPECT_LE(covered, 970) << "seed " << k_seed;
}

TEST(RowStats, FlagTwoModes) {
  Random random(k_seed);
  EXPECT_GE(
      count_of([&] { return has_flag(stats_of(samples_of(of_two_modes(random)), {}), RowFlag::bimodal); }),
      950);
}

TEST(RowStats, FlagADrift) {
  Random random(k_seed);
  EXPECT_GE(count_of([&] { return has_flag(stats_of(samples_of(rising(random)), {}), RowFlag::drifting); }),
            950);
}

TEST(RowStats, FlagNothingCleanInMoreThanOneOfTwentySeries) {
  Random random(k_seed);
  EXPECT_LE(count_of([&] { return !stats_of(samples_of(clean(random, 1)), {}).flags.empty(); }), 50);
}

TEST(RowStats, FlagTimesThatOthersInterrupted) {
  RowSamples samples = samples_of(std::vector<double>(100, 1.0));
  std::fill_n(samples.switches.begin(), 6, 1);
  EXPECT_EQ(stats_of(samples, {}).flags, (std::vector{RowFlag::contaminated}));
  EXPECT_EQ(stats_of(samples, {.is_oversubscribed = true}).flags, (std::vector{RowFlag::oversubscribed}));
  samples.switches.assign(100, 0);
  samples.span_s[99] = 1000;  // the longest hundredth
  EXPECT_TRUE(stats_of(samples, {}).flags.empty());
  samples.span_s[98] = 1000;  // the mean of the other 99 is 11, above P95
  EXPECT_EQ(stats_of(samples, {}).flags, (std::vector{RowFlag::contaminated}));
}

TEST(RowStats, FlagRanksThatCameLate) {
  RowSamples samples = samples_of(std::vector<double>(100, 1.0));
  samples.skew_s.assign(100, 0.11);
  EXPECT_EQ(stats_of(samples, {}).flags, (std::vector{RowFlag::skewed}));
  samples.skew_s.assign(100, 0.09);
  EXPECT_TRUE(stats_of(samples, {}).flags.empty());
}

TEST(RowStats, TakeTheLongestLocalTimeWhereClocksAreTooFarApart) {
  RowSamples samples = samples_of(std::vector<double>(100, 1.0));
  samples.local_s.assign(100, 0.8);
  EXPECT_EQ(stats_of(samples, {.clock_error_s = 0.09}).p50_s, 1.0);
  const RowStats local = stats_of(samples, {.clock_error_s = 0.11});
  EXPECT_EQ(local.p50_s, 0.8);
  EXPECT_EQ(local.flags, (std::vector{RowFlag::local_clock}));
}

TEST(RowStats, LackWhatSoFewSamplesCannotSay) {
  RowStats stats = stats_of(samples_of(std::vector<double>(19, 1.0)), {});
  EXPECT_FALSE(stats.p95_s || stats.p99_s || stats.low_s);
  EXPECT_EQ(stats.flags, (std::vector{RowFlag::few_samples}));
  stats = stats_of(samples_of(std::vector<double>(99, 1.0)), {});
  EXPECT_TRUE(stats.p95_s && stats.low_s);
  EXPECT_FALSE(stats.p99_s);
}

// A window of 64 messages takes 64 s; its ranks enter 7 s apart, and the clocks are 6.3 s apart.
TEST(RowStats, OfSeveralMessagesDivideTheirTimesAlone) {
  RowSamples samples = samples_of(std::vector<double>(30, 64.0));
  samples.skew_s.assign(30, 7);
  samples.first_s = 128;
  const RowStats stats = stats_of(samples, {.clock_error_s = 6.3, .messages = 64});
  EXPECT_EQ(stats.p50_s, 1.0);
  EXPECT_EQ(stats.low_s, 1.0);
  EXPECT_EQ(stats.p95_s, 1.0);
  EXPECT_EQ(stats.skew_s, 7.0);
  EXPECT_EQ(stats.first_s, 128.0);
  EXPECT_EQ(stats.flags, (std::vector{RowFlag::skewed}));
}

}  // namespace
}  // namespace commlens::bench
