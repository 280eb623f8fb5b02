#include "commlens/tune/launches.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace commlens::tune {
namespace {

/// A launch of enough rounds, the same in both halves.
LaunchMedians launch_of(double default_s, double time_s, std::int64_t rounds = 30) {
  return {.even = {rounds, default_s, time_s}, .odd = {rounds, default_s, time_s}};
}

/// The default and one other way, which takes a share of its time in each launch.
std::vector<LaunchedVariant> with_shares(const std::vector<double>& default_s,
                                         const std::vector<double>& shares) {
  std::vector<LaunchedVariant> variants{{"", {}}, {"a", {}}};
  for (std::size_t launch = 0; launch < default_s.size(); ++launch) {
    variants[0].launches.push_back(launch_of(default_s[launch], default_s[launch]));
    variants[1].launches.push_back(launch_of(default_s[launch], default_s[launch] * shares[launch]));
  }
  return variants;
}

// Rounds 2, 3 and 4 are those of both: 20 and 40 are even, 3 is odd.
TEST(LaunchMedians, AreOfRoundsThatBothHave) {
  const Variant usual{"", {1, 2, 3, 4}, {9, 2, 3, 4}};
  const Variant other{"a", {2, 3, 4, 5}, {20, 30, 40, 9}};
  const LaunchMedians launch = launch_medians(usual, other);
  EXPECT_EQ(launch.even.rounds, 2);
  EXPECT_EQ(launch.even.default_s, 3);
  EXPECT_EQ(launch.even.time_s, 30);
  EXPECT_EQ(launch.odd.rounds, 1);
  EXPECT_EQ(launch.odd.default_s, 3);
  EXPECT_EQ(launch.odd.time_s, 30);
}

// The first has 4 even rounds, which count for nothing: of the others the mean.
TEST(LaunchMedians, OfOneMomentAreThoseOfLaunchesThatCount) {
  std::vector<LaunchMedians> launches{launch_of(9, 9), launch_of(1, 0.5), launch_of(2, 2)};
  launches[0].even.rounds = 4;
  launches[1].odd.rounds = 7;
  const LaunchMedians together = launch_medians_together(launches);
  EXPECT_EQ(together.even.default_s, 1.5);
  EXPECT_EQ(together.even.time_s, 1.25);
  EXPECT_EQ(together.odd.default_s, 1.5);
  EXPECT_EQ(together.odd.rounds, 30);
  EXPECT_EQ(launch_medians_together(std::span(launches).first(1)).even.rounds, 4);
  EXPECT_EQ(launch_medians_together({}).even.rounds, 0);
  EXPECT_EQ(launch_medians_together(std::vector<LaunchMedians>(2)).odd.rounds, 0);
}

// Launches are up to three times as long as others; the way saves a fifth in all.
TEST(DecisionOverLaunches, TakesWhatIsFasterInEachLaunch) {
  const auto variants = with_shares({1, 3, 2, 1, 3, 2}, {0.8, 0.75, 0.8, 0.8, 0.85, 0.8});
  const Decision decision = decide_over_launches(variants, 0.05);
  EXPECT_EQ(decision.variant, 1U);
  EXPECT_DOUBLE_EQ(decision.gain.value, 0.2);
  EXPECT_DOUBLE_EQ(decision.gain.low, 0.15);
  EXPECT_DOUBLE_EQ(decision.gain.high, 0.25);
  EXPECT_DOUBLE_EQ(decision.default_s, 2);
}

TEST(DecisionOverLaunches, IsNoneWhereOneLaunchIsNoFaster) {
  EXPECT_EQ(decide_over_launches(with_shares({1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 1}), 0.05).variant,
            0U);
  EXPECT_EQ(
      decide_over_launches(with_shares({1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.99}), 0.05).variant,
      1U);
}

TEST(DecisionOverLaunches, IsNoneBelowTheLeastGain) {
  const auto variants = with_shares({1, 1, 1, 1, 1, 1}, {0.97, 0.97, 0.97, 0.97, 0.97, 0.97});
  EXPECT_EQ(decide_over_launches(variants, 0.05).variant, 0U);
  EXPECT_EQ(decide_over_launches(variants, 0.02).variant, 1U);
}

TEST(DecisionOverLaunches, NeedsSixLaunchesOfFiveRoundsAHalf) {
  auto variants = with_shares({1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  variants[1].launches[3].odd.rounds = 5;
  EXPECT_EQ(decide_over_launches(variants, 0.05).variant, 1U);
  variants[1].launches[3].odd.rounds = 4;
  EXPECT_EQ(decide_over_launches(variants, 0.05).variant, 0U);
}

// Even rounds choose and odd ones report: where only even rounds were fast, the report says so.
TEST(DecisionOverLaunches, ReportsRoundsThatItHasNotSeen) {
  auto variants = with_shares({1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  for (LaunchMedians& launch : variants[1].launches) {
    launch.odd.time_s = 1;
  }
  const Decision decision = decide_over_launches(variants, 0.05);
  EXPECT_EQ(decision.variant, 1U);
  EXPECT_EQ(decision.gain.value, 0);
}

TEST(DecisionOverLaunches, SeldomFindsAGainAmongEqualWays) {
  constexpr std::uint64_t k_seed = 7;
  std::mt19937_64 random(k_seed);
  std::normal_distribution<double> noise(0, 0.1);
  int rules = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<LaunchedVariant> variants(7);
    for (int launch = 0; launch < 10; ++launch) {
      const double speed = random() % 2 == 0 ? 1 : 2;
      for (LaunchedVariant& variant : variants) {
        variant.launches.push_back(launch_of(speed, speed * std::exp(noise(random))));
      }
    }
    rules += decide_over_launches(variants, 0.05).variant != 0 ? 1 : 0;
  }
  EXPECT_LE(rules, 10) << "seed " << k_seed;
}

/// What a step of one call of each message gains.
StepGain gain_of(const std::vector<std::vector<LaunchedVariant>>& messages, double calls = 1) {
  std::vector<LaunchedMessage> step;
  for (const std::vector<LaunchedVariant>& variants : messages) {
    step.push_back({variants, 1, calls});
  }
  return step_gain_over_launches(step);
}

// 36 differences, 50 plus any of 0 to 5 less any of these: 45, 46 twice, 47 three times. 1.96 times the
// spread of U, sqrt(36 x 13 / 12), is 12.2 of 18: the fifth from each end.
TEST(StepGainOverLaunches, IsThatOfJobsWithRulesAndWithout) {
  std::vector<LaunchedVariant> variants{{"", {}}, {"a", {}}};
  for (int launch = 0; launch < 6; ++launch) {
    variants[0].launches.push_back(launch_of(100 + launch, 100 + launch));
    variants[1].launches.push_back(launch_of(100 + launch, 50 + launch));
  }
  const StepGain once = gain_of({variants});
  EXPECT_EQ(once.default_s, 102.5);
  EXPECT_EQ(once.gain_s.value, 50);
  EXPECT_EQ(once.gain_s.low, 47);
  EXPECT_EQ(once.gain_s.high, 53);
  const StepGain often = gain_of({variants}, 3);
  EXPECT_EQ(often.default_s, 307.5);
  EXPECT_EQ(often.gain_s.low, 141);
}

// The way saves a second in each launch, of launches that are ten apart.
TEST(StepGainOverLaunches, HoldsNoneWhereLaunchesDifferByMore) {
  std::vector<LaunchedVariant> variants{{"", {}}, {"a", {}}};
  for (int launch = 1; launch <= 6; ++launch) {
    variants[0].launches.push_back(launch_of(10 * launch, 10 * launch));
    variants[1].launches.push_back(launch_of(10 * launch, 10 * launch - 1));
  }
  const StepGain step = gain_of({variants});
  EXPECT_EQ(step.gain_s.value, 1);
  EXPECT_EQ(step.gain_s.low, -29);
  EXPECT_EQ(step.gain_s.high, 31);
}

TEST(StepGainOverLaunches, IsUnboundedOfFewerThanSixLaunchesThatHaveAll) {
  auto first = with_shares({1, 1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  auto second = first;
  first[1].launches[0] = {};
  EXPECT_GT(gain_of({first}).gain_s.low, 0);
  second[1].launches[1] = {};
  EXPECT_EQ(gain_of({first, second}).gain_s.low, -std::numeric_limits<double>::infinity());
}

// 2.19 times 4.5 is 9.9, and 4.6 times that 10.1.
TEST(StepGainOverLaunches, IsFoundAgainWhereItIsTwiceWhatItIsUncertainBy) {
  EXPECT_TRUE(is_found_again({.value = 10, .low = 5.5, .high = 20}));
  EXPECT_FALSE(is_found_again({.value = 10, .low = 5.4, .high = 12}));
  EXPECT_FALSE(is_found_again({.value = 10, .low = -std::numeric_limits<double>::infinity(), .high = 20}));
  EXPECT_FALSE(is_found_again({.value = -10, .low = -12, .high = -8}));
  EXPECT_FALSE(is_found_again({}));
}

TEST(StepGainOverLaunches, IsNoneWhereNothingWasChosen) {
  const auto variants = with_shares({1, 1, 1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  const StepGain step = step_gain_over_launches(std::vector<LaunchedMessage>{{variants, 0, 4}});
  EXPECT_EQ(step.default_s, 4);
  EXPECT_EQ(step.gain_s.value, 0);
  EXPECT_EQ(step.gain_s.low, 0);
}

}  // namespace
}  // namespace commlens::tune
