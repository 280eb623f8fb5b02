// --check: the launches of a result against those of an earlier one.
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/bench_bursts.hpp"
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

/// The same with begins: so many launches at once, then a second until the next.
BenchRun run_in_bursts(std::mt19937_64& random, int in_burst) {
  BenchRun run = run_with(random, 1);
  for (std::size_t launch = 0; launch < run.launches.size(); ++launch) {
    const auto burst = static_cast<std::int64_t>(launch) / in_burst;
    const auto in_it = static_cast<std::int64_t>(launch) % in_burst;
    run.launches[launch].began_ns = burst * 1'000'000'000 + in_it * 7'000'000;
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
    for (const BenchCheck& check : checks->rows) {
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

/// Ten launches of nine rows: three ops of three sizes. A launch is fast or half as fast in all rows, which
/// scatter by 3 % or so; the rows of an op are slower by one factor, all rows by another.
BenchRun run_of_two_speeds(std::mt19937_64& random, double op_factor, double factor, double scatter = 0.03) {
  std::lognormal_distribution<double> of_row(0, scatter);
  BenchRun run;
  for (int launch = 0; launch < k_launches; ++launch) {
    BenchLaunch& added = run.launches.emplace_back();
    const double speed = random() % 2 == 0 ? 1 : 2;
    for (const char* const op : {"all_reduce", "all_gather", "broadcast"}) {
      for (const std::int64_t bytes : {8, 65536, 1048576}) {
        BenchLaunchRow& row = added.rows.emplace_back();
        row.key = {op, "fp32", "world", 2, bytes, false};
        row.stats.p50_s =
            1e-5 * speed * factor * of_row(random) * (row.key.op == "all_reduce" ? op_factor : 1);
      }
    }
  }
  return run;
}

/// Of twenty comparisons, those that find all_reduce, alone a row of it, another op or row, and all rows
/// slower.
struct SpeedAlarms {
  int all_reduce = 0;
  int all_reduce_row = 0;
  int others = 0;
  int others_together = 0;  // an op, by all of its rows
  int all = 0;
};

SpeedAlarms speed_alarms(double op_factor, double factor, double scatter = 0.03) {
  std::mt19937_64 random(k_seed);
  SpeedAlarms alarms;
  for (int run = 0; run < k_runs; ++run) {
    const BenchRun before = run_of_two_speeds(random, 1, 1, scatter);
    const auto checks = check_bench(before, run_of_two_speeds(random, op_factor, factor, scatter));
    bool is_found = false;
    bool is_other = false;
    for (const BenchCheck& check : checks->rows) {
      (check.key.op == "all_reduce" ? is_found : is_other) |= check.is_slower;
    }
    alarms.all_reduce_row += is_found ? 1 : 0;
    bool is_together = false;
    for (const BenchOpCheck& check : checks->ops) {
      EXPECT_EQ(check.rows, 3);
      (check.op == "all_reduce" ? is_found : is_together) |= check.shift.is_slower;
    }
    alarms.all_reduce += is_found ? 1 : 0;
    alarms.others += is_other || is_together ? 1 : 0;
    alarms.others_together += is_together ? 1 : 0;
    alarms.all += checks->all->is_slower ? 1 : 0;
  }
  return alarms;
}

TEST(BenchCheck, OfLaunchesOfTwoSpeedsRaisesAtMostOneFalseAlarmInTwenty) {
  const SpeedAlarms alarms = speed_alarms(1, 1);
  EXPECT_LE(alarms.all_reduce + alarms.others + alarms.all, 1) << "seed " << k_seed;
}

TEST(BenchCheck, OfAnOpHasTheMedianOfTheRatiosOfItsRows) {
  const auto run_of = [](const std::vector<double>& factors) {
    BenchRun run;
    for (int launch = 0; launch < k_launches; ++launch) {
      BenchLaunch& added = run.launches.emplace_back();
      for (const char* const op : {"all_reduce", "all_gather", "broadcast"}) {
        for (std::size_t size = 0; size < factors.size(); ++size) {
          BenchLaunchRow& row = added.rows.emplace_back();
          row.key = {op, "fp32", "world", 2, std::int64_t{8} << size, false};
          row.stats.p50_s = row.key.op == "all_reduce" ? 1e-5 * factors[size] : 1e-5;
        }
      }
    }
    return run;
  };
  const auto checks = check_bench(run_of({1, 1, 1}), run_of({1.2, 1.6, 1.3}));
  ASSERT_TRUE(checks) << checks.error().message;
  ASSERT_EQ(checks->ops.size(), 3U);
  for (const BenchOpCheck& check : checks->ops) {
    EXPECT_NEAR(check.ratio, check.op == "all_reduce" ? 1.3 : 1.0, 1e-9) << check.op;
    EXPECT_EQ(check.rows, 3);
  }
}

// By its times alone, such a row is not found.
TEST(BenchCheck, OfLaunchesOfTwoSpeedsFindsTheOpThatIs15PercentSlowerAndNothingElse) {
  const SpeedAlarms alarms = speed_alarms(1.15, 1);
  EXPECT_GE(alarms.all_reduce, 18) << "seed " << k_seed;
  EXPECT_LE(alarms.others + alarms.all, 1) << "seed " << k_seed;
}

// 15 % are hardly more than what a row scatters by; of three rows together they are.
TEST(BenchCheck, FindsAnOpWhoseRowsScatter) {
  constexpr double k_scatter = 0.05;
  const SpeedAlarms alarms = speed_alarms(1.15, 1, k_scatter);
  EXPECT_GE(alarms.all_reduce, 18) << "seed " << k_seed;
  EXPECT_LT(alarms.all_reduce_row, alarms.all_reduce);
  EXPECT_LE(alarms.others + alarms.all, 1) << "seed " << k_seed;
  const SpeedAlarms unchanged = speed_alarms(1, 1, k_scatter);
  EXPECT_LE(unchanged.all_reduce + unchanged.others + unchanged.all, 1) << "seed " << k_seed;
}

TEST(BenchCheck, AnOpThatIsFasterMakesNoOtherOneSlower) {
  const SpeedAlarms alarms = speed_alarms(0.8, 1);
  EXPECT_EQ(alarms.all_reduce, 0) << "seed " << k_seed;
  EXPECT_LE(alarms.others_together + alarms.all, 1) << "seed " << k_seed;
}

TEST(BenchCheck, SaysWhereAllRowsAreSlower) {
  const SpeedAlarms alarms = speed_alarms(1, 2.5);
  EXPECT_GE(alarms.all, 18) << "seed " << k_seed;
  EXPECT_LE(alarms.all_reduce + alarms.others, 1) << "seed " << k_seed;
}

// Two ops, of which one is slower: it may as well be that the other is faster.
TEST(BenchCheck, RelatesNoRowsWhereThereAreFew) {
  std::mt19937_64 random(k_seed);
  const auto few = [](BenchRun run) {
    for (BenchLaunch& launch : run.launches) {
      launch.rows.resize(3);
    }
    return run;
  };
  const auto checks = check_bench(few(run_with(random, 1)), few(run_with(random, 1.3)));
  ASSERT_TRUE(checks) << checks.error().message;
  EXPECT_FALSE(checks->all);
  EXPECT_FALSE(checks->rows.at(0).relative_ratio);
  EXPECT_TRUE(checks->rows.at(0).is_slower);
  EXPECT_TRUE(check_bench(run_with(random, 1), run_with(random, 1))->rows.at(0).relative_ratio);
}

TEST(BenchCheck, CountsLaunchesOfOneMomentAsOne) {
  std::mt19937_64 random(k_seed);
  const BenchRun apart = run_in_bursts(random, 1);
  EXPECT_EQ(bursts_of(apart).size(), 10U);
  EXPECT_TRUE(check_bench(apart, run_in_bursts(random, 1)));
  const BenchRun in_pairs = run_in_bursts(random, 2);
  EXPECT_EQ(bursts_of(in_pairs).size(), 5U);
  const BenchRun at_once = run_in_bursts(random, 10);
  EXPECT_EQ(bursts_of(at_once).size(), 1U);
  for (const BenchRun& burst : {in_pairs, at_once}) {
    const auto checks = check_bench(apart, burst);
    ASSERT_FALSE(checks);
    EXPECT_EQ(checks.error().message.substr(0, 53), "--check: the 10 launches of this result count as " +
                                                        std::to_string(bursts_of(burst).size()) + ": t");
  }
}

// 450 ms is 200 after the launch before, though 450 after the first of the burst; 700 is 250 after the launch
// before. A file has them in the order in which jobs ended.
TEST(BenchBursts, GoOnWhileALaunchBeginsWithinAQuarterOfASecondOfAnother) {
  BenchRun run;
  for (const std::int64_t began_ms : {450, 0, 700, 200, 250, 949}) {
    run.launches.emplace_back().began_ns = began_ms * 1'000'000;
  }
  run.launches.emplace_back();  // not known when
  std::vector<std::vector<std::int64_t>> bursts;
  for (const std::vector<const BenchLaunch*>& burst : bursts_of(run)) {
    std::vector<std::int64_t>& began_ms = bursts.emplace_back();
    for (const BenchLaunch* const launch : burst) {
      began_ms.push_back(launch->began_ns.value_or(-1'000'000) / 1'000'000);
    }
  }
  EXPECT_EQ(bursts, (std::vector<std::vector<std::int64_t>>{{-1}, {0, 200, 250, 450}, {700, 949}}));
}

// Six pairs of launches: each pair is its median, (8 + 12) / 2 µs and (9 + 13) / 2 µs.
TEST(BenchCheck, TakesTheMedianOfLaunchesOfOneMoment) {
  const auto paired = [](double first_us, double second_us) {
    BenchRun run;
    for (int launch = 0; launch < 12; ++launch) {
      BenchLaunch& added = run.launches.emplace_back();
      added.began_ns = launch / 2 * std::int64_t{1'000'000'000} + launch % 2;
      BenchLaunchRow& row = added.rows.emplace_back();
      row.key = {"all_reduce", "fp32", "world", 2, 8, false};
      row.stats.p50_s = 1e-6 * (launch % 2 == 0 ? first_us : second_us);
    }
    return run;
  };
  const auto checks = check_bench(paired(8, 12), paired(9, 13));
  ASSERT_TRUE(checks) << checks.error().message;
  EXPECT_DOUBLE_EQ(checks->rows.at(0).before_s, 10e-6);
  EXPECT_DOUBLE_EQ(checks->rows.at(0).now_s, 11e-6);
  EXPECT_TRUE(checks->rows.at(0).is_slower);
}

// Ten launches of 100 µs each, within 1 %, against ten that are 4 and 6 % longer.
TEST(BenchCheck, LeavesWhatAMachineShiftsByItself) {
  const auto longer = [](double factor) {
    BenchRun run;
    for (int launch = 0; launch < 10; ++launch) {
      BenchLaunchRow& row = run.launches.emplace_back().rows.emplace_back();
      row.key = {"all_reduce", "fp32", "world", 2, 8, false};
      row.stats.p50_s = 1e-4 * factor * (1 + 0.001 * launch);
    }
    return run;
  };
  EXPECT_FALSE(check_bench(longer(1), longer(1.04))->rows.at(0).is_slower);
  EXPECT_LT(check_bench(longer(1), longer(1.04))->rows.at(0).p_adjusted, 0.01);
  EXPECT_TRUE(check_bench(longer(1), longer(1.06))->rows.at(0).is_slower);
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

/// Why a run cannot be compared with an edited one.
std::string refusal_after(const std::function<void(BenchRun& before, BenchRun& now)>& edit) {
  std::mt19937_64 random(k_seed);
  BenchRun before = run_with(random, 1);
  BenchRun now = run_with(random, 1);
  edit(before, now);
  const auto checks = check_bench(before, now);
  return checks ? "" : checks.error().message;
}

TEST(BenchCheck, RefusesWhatIsNotAlike) {
  EXPECT_EQ(refusal_after([](BenchRun&, BenchRun&) {}), "");
  const std::string end = "; choose another file";
  EXPECT_TRUE(refusal_after([](BenchRun& before, BenchRun&) { before.is_cold = true; }).ends_with(end));
  EXPECT_TRUE(refusal_after([](BenchRun& before, BenchRun&) { before.transport = "mpi"; }).ends_with(end));
  EXPECT_TRUE(refusal_after([](BenchRun& before, BenchRun&) { before.ranks = 4; }).ends_with(end));
}

TEST(BenchCheck, RefusesRowsThatTheEarlierResultLacks) {
  EXPECT_EQ(refusal_after([](BenchRun& before, BenchRun&) {
              for (BenchLaunch& launch : before.launches) {
                launch.rows.erase(launch.rows.begin());
              }
            }),
            "--check: the earlier result has no op0 of 8 B (fp32, world of 2 ranks); time the calls that it "
            "has, or measure it anew");
  EXPECT_EQ(refusal_after([](BenchRun&, BenchRun& now) {
              for (BenchLaunch& launch : now.launches) {
                launch.rows.pop_back();
              }
            }),
            "");
}

TEST(BenchCheck, SaysAllThatStandsAgainstIt) {
  EXPECT_EQ(
      refusal_after([](BenchRun& before, BenchRun& now) {
        before.transport = "mpi";
        for (BenchLaunch& launch : before.launches) {
          launch.rows.erase(launch.rows.begin());
        }
        now.launches.resize(1);
      }),
      "--check: the earlier result holds 0 ranks over mpi with hot buffers, and this job has 0 over  with "
      "hot "
      "ones; choose another file; the earlier result has no op0 of 8 B (fp32, world of 2 ranks); time the "
      "calls that it has, or measure it anew; this result has 1 launch, and launches differ by themselves; 6 "
      "of each result are the least, 10 find 15 %: --launches 10, over MPI --append FILE in each of 10 jobs");
}

TEST(BenchCheck, CountsWholeLaunchesOfEachRow) {
  EXPECT_EQ(refusal_after([](BenchRun& before, BenchRun&) {
              for (std::size_t launch = 5; launch < 10; ++launch) {
                before.launches[launch].is_partial = true;
              }
            }).substr(0, 45),
            "--check: the earlier result has 5 launches, a");
  EXPECT_EQ(refusal_after([](BenchRun&, BenchRun& now) {
              for (std::size_t launch = 3; launch < 10; ++launch) {
                now.launches[launch].rows.erase(now.launches[launch].rows.begin());
              }
            }).substr(0, 73),
            "--check: op0 of 8 B (fp32, world of 2 ranks) of this result has 3 launche");
}

}  // namespace
}  // namespace commlens
