#include "commlens/tune/selection.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace commlens::tune {
namespace {

/// Samples of log-normal noise around `median_s`, one a round.
Variant noisy(const std::string& algorithm, double median_s, std::mt19937_64& random,
              std::int64_t rounds = 200, double spread = 0.1) {
  Variant variant{.algorithm = algorithm, .rounds = {}, .times_s = {}};
  std::normal_distribution<double> noise(0, spread);
  for (std::int64_t round = 1; round <= rounds; ++round) {
    variant.rounds.push_back(round);
    variant.times_s.push_back(median_s * std::exp(noise(random)));
  }
  return variant;
}

TEST(Decision, TakesTheVariantThatIsClearlyFaster) {
  std::mt19937_64 random(1);
  const std::vector<Variant> variants{noisy("", 1e-3, random), noisy("a", 0.9e-3, random),
                                      noisy("b", 0.7e-3, random), noisy("c", 1.5e-3, random)};
  const Decision decision = decide(variants, {});
  EXPECT_EQ(decision.variant, 2U);
  EXPECT_NEAR(decision.gain.value, 0.3, 0.03);
  EXPECT_LT(decision.gain.low, decision.gain.value);
  EXPECT_GT(decision.gain.high, decision.gain.value);
  EXPECT_GT(decision.gain.low, 0.2);
}

TEST(Decision, IsNoneBelowTheLeastGain) {
  std::mt19937_64 random(2);
  const std::vector<Variant> variants{noisy("", 1e-3, random, 2000, 0.02),
                                      noisy("a", 0.97e-3, random, 2000, 0.02)};
  EXPECT_EQ(decide(variants, {.least_gain = 0.05}).variant, 0U);
  EXPECT_EQ(decide(variants, {.least_gain = 0.02}).variant, 1U);
}

TEST(Decision, IsNoneWhereIntervalsOverlap) {
  std::mt19937_64 random(3);
  const std::vector<Variant> variants{noisy("", 1e-3, random, 80, 1.0), noisy("a", 0.9e-3, random, 80, 1.0)};
  EXPECT_EQ(decide(variants, {}).variant, 0U);
}

TEST(Decision, NeedsThirtySamplesInEachHalf) {
  std::mt19937_64 random(4);
  EXPECT_EQ(decide(std::vector{noisy("", 1e-3, random, 59), noisy("a", 1e-4, random, 59)}, {}).variant, 0U);
  EXPECT_EQ(decide(std::vector{noisy("", 1e-3, random, 60), noisy("a", 1e-4, random, 60)}, {}).variant, 1U);
}

/// Even rounds choose and odd rounds report: where only even rounds were fast, the report says so.
TEST(Decision, ReportsRoundsThatItHasNotSeen) {
  std::mt19937_64 random(5);
  std::vector<Variant> variants{noisy("", 1e-3, random), noisy("a", 1e-3, random)};
  for (std::size_t at = 0; at < variants[1].rounds.size(); ++at) {
    variants[1].times_s[at] *= variants[1].rounds[at] % 2 == 0 ? 0.5 : 1.0;
  }
  const Decision decision = decide(variants, {});
  EXPECT_EQ(decision.variant, 1U);
  EXPECT_LT(decision.gain.low, 0.0);
  EXPECT_LT(decision.gain.value, 0.05);
}

TEST(Decision, SeldomFindsAGainAmongEqualVariants) {
  std::mt19937_64 random(6);
  int rules = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<Variant> variants;
    for (const char* name : {"", "a", "b", "c", "d", "e", "f"}) {
      variants.push_back(noisy(name, 1e-3, random, 200, 0.2));
    }
    rules += decide(variants, {.resamples = 1}).variant != 0 ? 1 : 0;
  }
  EXPECT_LE(rules, 10);  // 19 of 20 are none
}

/// Variants end by their own time. Where the machine becomes 30 % faster at round 100, those that are timed
/// longer see more of the fast rounds.
TEST(Decision, ComparesRoundsThatBothHave) {
  std::mt19937_64 random(9);
  const auto on_a_machine_that_becomes_faster = [&](std::int64_t rounds) {
    Variant variant = noisy("", 1e-3, random, rounds);
    for (std::size_t at = 0; at < variant.rounds.size(); ++at) {
      variant.times_s[at] *= variant.rounds[at] < 100 ? 1.0 : 0.7;
    }
    return variant;
  };
  int rules = 0;
  int gains = 0;
  constexpr int k_runs = 20;
  for (int run = 0; run < k_runs; ++run) {
    const std::vector<Variant> variants{on_a_machine_that_becomes_faster(130),
                                        on_a_machine_that_becomes_faster(400),
                                        on_a_machine_that_becomes_faster(90)};
    rules += decide(variants, {.resamples = 1}).variant != 0 ? 1 : 0;
    const StepGain step = step_gain(std::vector<WeightedMessage>{{variants, 1, 1}},
                                    {.seed = static_cast<std::uint64_t>(run), .resamples = 300});
    gains += step.gain_s.low > 0 ? 1 : 0;
  }
  EXPECT_LE(rules, 1);  // 19 of 20 are none
  EXPECT_LE(gains, 3);  // 1 of 40 intervals is above 0; more than 3 of 20 so in 1 of 600 runs of this test
}

TEST(StepGain, SumsCallsTimesWhatIsSaved) {
  // Without noise the interval is the value.
  const auto steady = [](double time_s) {
    std::mt19937_64 random(1);
    return noisy("", time_s, random, 100, 0);
  };
  const std::vector<Variant> first{steady(4e-3), steady(1e-3)};
  const std::vector<Variant> second{steady(2e-3), steady(1e-3)};
  const StepGain step =
      step_gain(std::vector<WeightedMessage>{{first, 1, 10}, {second, 0, 5}, {second, 1, 0.5}}, {});
  EXPECT_NEAR(step.default_s, 10 * 4e-3 + 5 * 2e-3 + 0.5 * 2e-3, 1e-12);
  EXPECT_NEAR(step.gain_s.value, 10 * 3e-3 + 0.5 * 1e-3, 1e-12);
  EXPECT_NEAR(step.gain_s.low, step.gain_s.value, 1e-12);
  EXPECT_NEAR(step.gain_s.high, step.gain_s.value, 1e-12);
}

/// The interval of the sum covers the true gain about as often as it says.
TEST(StepGain, HasAnHonestInterval) {
  std::mt19937_64 random(7);
  int covered = 0;
  constexpr int k_runs = 200;
  for (int run = 0; run < k_runs; ++run) {
    const std::vector<Variant> one{noisy("", 3e-3, random, 200), noisy("a", 2e-3, random, 200)};
    const std::vector<Variant> other{noisy("", 5e-3, random, 200), noisy("a", 4.5e-3, random, 200)};
    const StepGain step = step_gain(std::vector<WeightedMessage>{{one, 1, 3}, {other, 1, 7}},
                                    {.seed = static_cast<std::uint64_t>(run), .resamples = 300});
    const double truth = 3 * 1e-3 + 7 * 0.5e-3;
    covered += step.gain_s.low <= truth && truth <= step.gain_s.high ? 1 : 0;
  }
  EXPECT_GE(covered, k_runs * 90 / 100);
  EXPECT_LT(covered, k_runs);
}

TEST(StepGain, IsNothingWithoutRules) {
  std::mt19937_64 random(8);
  const std::vector<Variant> variants{noisy("", 1e-3, random)};
  const StepGain step = step_gain(std::vector<WeightedMessage>{{variants, 0, 10}}, {});
  EXPECT_EQ(step.gain_s.value, 0);
  EXPECT_EQ(step.gain_s.low, 0);
  EXPECT_EQ(step.gain_s.high, 0);
}

}  // namespace
}  // namespace commlens::tune
