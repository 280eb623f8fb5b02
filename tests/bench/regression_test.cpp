// --check: the launches of a result against those of an earlier one.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/bench_regression.hpp"

namespace commlens {
namespace {

constexpr std::uint64_t k_seed = 20261127;
constexpr int k_runs = 20;
constexpr int k_launches = 10;
constexpr int k_ops = 5;

/// Ten launches of five rows, whose medians scatter by 5 % from launch to launch; the first row is slower by
/// a factor.
BenchRun run_with(std::mt19937_64& random, double factor) {
  std::lognormal_distribution<double> launch_factor(0, 0.05);
  BenchRun run;
  for (int launch = 0; launch < k_launches; ++launch) {
    BenchLaunch& added = run.launches.emplace_back();
    for (int op = 0; op < k_ops; ++op) {
      BenchLaunchRow& row = added.rows.emplace_back();
      row.key = {"op" + std::to_string(op), "fp32", "world", 2, 8, false};
      row.stats.p50_s = 1e-5 * launch_factor(random) * (op == 0 ? factor : 1);
    }
  }
  return run;
}

/// Runs of twenty in which a row counted as slower: the first one, and any other.
struct Alarms {
  int first = 0;
  int others = 0;
};

Alarms alarms_at(double factor) {
  std::mt19937_64 random(k_seed);
  Alarms alarms;
  for (int run = 0; run < k_runs; ++run) {
    const BenchRun before = run_with(random, 1);
    const auto checks = check_bench(before, run_with(random, factor));
    bool other = false;
    for (const BenchCheck& check : *checks) {
      alarms.first += check.is_slower && check.key.op == "op0" ? 1 : 0;
      other = other || (check.is_slower && check.key.op != "op0");
    }
    alarms.others += other ? 1 : 0;
  }
  return alarms;
}

TEST(BenchCheck, RaisesAtMostOneFalseAlarmInTwenty) {
  const Alarms alarms = alarms_at(1);
  EXPECT_LE(alarms.first + alarms.others, 1) << "seed " << k_seed;
}

TEST(BenchCheck, FindsTheRowThatIs15PercentSlowerAndNoOther) {
  const Alarms alarms = alarms_at(1.15);
  EXPECT_GE(alarms.first, 18) << "seed " << k_seed;
  EXPECT_LE(alarms.others, 1) << "seed " << k_seed;
}

TEST(BenchCheck, RefusesOneLaunch) {
  std::mt19937_64 random(k_seed);
  const BenchRun before = run_with(random, 1);
  BenchRun now = before;
  now.launches.resize(1);
  EXPECT_EQ(check_bench(before, now).error().message.substr(0, 33), "--check: this result has 1 launch");
  EXPECT_EQ(check_bench(now, before).error().message.substr(0, 41),
            "--check: the earlier result has 1 launch,");
}

}  // namespace
}  // namespace commlens
