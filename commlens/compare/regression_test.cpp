#include "commlens/compare/regression.hpp"

#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// What one call of a test takes, in nanoseconds.
using Duration = std::function<std::int64_t(Iteration iteration, std::int64_t op, std::int64_t rank)>;

struct Work {
  std::int64_t ranks = 1;
  std::int64_t ops = 1;      // distinct rows, distinguished by their phase and kind
  std::int64_t calls = 1;    // of each op in an iteration
  Iteration iterations = 0;  // after initialisation and the cold one
  std::int64_t elements = 1024;
};

/// Initialisation, iteration 0 (ten times as slow), then `iterations` more; every call follows the last at
/// once.
Trace run_of(const Work& work, const Duration& duration) {
  Trace trace;
  trace.provenance.source = Source::recorded;
  std::vector<Rank> everyone;
  for (std::int64_t rank = 0; rank < work.ranks; ++rank) {
    everyone.push_back({rank});
  }
  const GroupId group = trace.groups.intern(everyone, Axis::dp);
  std::vector<OpId> ops;
  for (std::int64_t op = 0; op < work.ops; ++op) {
    ops.push_back(trace.intern({.kind = static_cast<CommKind>(op % 3),
                                .dtype = DType::fp32,
                                .phase = static_cast<Phase>(op / 3 % 4),
                                .group = group,
                                .input = {work.elements},
                                .output = {work.elements}}));
  }
  for (std::int64_t rank = 0; rank < work.ranks; ++rank) {
    RankStream stream{.ranks = {{rank}, {rank}}};
    std::int64_t now = 0;
    for (Iteration iteration = k_init_iteration; iteration <= work.iterations; ++iteration) {
      for (std::int64_t call = 0; call < work.ops * work.calls; ++call) {
        const std::int64_t op = call % work.ops;
        const std::int64_t cold = iteration < 1 ? 10 : 1;
        const std::int64_t length = cold * duration(iteration, op, rank);
        stream.events.push_back({.op = ops[static_cast<std::size_t>(op)], .iteration = iteration});
        stream.times.push_back({nanoseconds(now), nanoseconds(now), nanoseconds(now + length)});
        now += length;
      }
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

/// `mean` and up to 5 % either way, from a seed.
Duration noisy(std::uint32_t seed, std::int64_t mean) {
  return [random = std::mt19937(seed), mean](Iteration, std::int64_t, std::int64_t) mutable {
    constexpr std::int64_t steps = 1001;
    const auto step = static_cast<std::int64_t>(random() % steps);
    return mean + mean * (step - steps / 2) / (10 * steps);
  };
}

Regression compared(const Trace& a, const Trace& b, const RegressionOptions& options = {}) {
  const Result<Regression> result = regression(a, b, options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result.value_or(Regression{});
}

// Iterations 1 to 3 take 100, 200, 300 ns a call in A and twice that in B. Of steps there are two, since the
// last has no next one.
TEST(Regression, TakesOneValuePerIterationAndSkipsTheColdOnes) {
  const auto length = [](Iteration iteration) { return 100 * std::max<std::int64_t>(iteration, 1); };
  const Trace a =
      run_of({.iterations = 3}, [&](Iteration i, std::int64_t, std::int64_t) { return length(i); });
  const Trace b =
      run_of({.iterations = 3}, [&](Iteration i, std::int64_t, std::int64_t) { return 2 * length(i); });
  const Regression result = compared(a, b);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_TRUE(result.rows[0].is_step);
  EXPECT_EQ(result.rows[0].iterations_a, 2);
  EXPECT_EQ(result.rows[0].a, nanoseconds(150));
  EXPECT_EQ(result.rows[1].iterations_a, 3);
  EXPECT_EQ(result.rows[1].a, nanoseconds(200));
  EXPECT_EQ(result.rows[1].b, nanoseconds(400));
  EXPECT_EQ(result.rows[1].ratio(), 2.0);
  EXPECT_EQ(result.rows[1].calls, 1);
}

// Of 20 calls in an iteration 19 take 100 ns and one 1000 ns: P95 is the 19th, and with two slow ones the
// 19th is slow.
TEST(Regression, TakesTheRequestedQuantileOfAnIteration) {
  const auto with_slow = [](int slow) {
    int call = 0;
    return [call, slow](Iteration, std::int64_t, std::int64_t) mutable {
      return call++ % 20 < slow ? 1000 : 100;
    };
  };
  const Work work{.calls = 20, .iterations = 2};
  const Regression p95 =
      compared(run_of(work, with_slow(1)), run_of(work, with_slow(2)), {.metric = CallMetric::p95});
  EXPECT_EQ(p95.rows.back().a, nanoseconds(100));
  EXPECT_EQ(p95.rows.back().b, nanoseconds(1000));
  const Regression p50 = compared(run_of(work, with_slow(1)), run_of(work, with_slow(2)));
  EXPECT_EQ(p50.rows.back().b, nanoseconds(100));
}

// Of 1 to 100 ns the nearest rank makes P50 the 50th and P95 the 95th; 100 calls an iteration, so that one
// percent more or less is another call.
TEST(Regression, TakesThePercentileOfEveryCallOfAnIteration) {
  const auto ascending = [](std::int64_t first) {
    return [call = std::int64_t{0}, first](Iteration, std::int64_t, std::int64_t) mutable {
      return first + call++ % 100;
    };
  };
  const Work work{.calls = 100, .iterations = 2};
  const Trace a = run_of(work, ascending(1));
  const Trace b = run_of(work, ascending(1001));
  const Regression p50 = compared(a, b);
  EXPECT_EQ(p50.rows.back().a, nanoseconds(50));
  EXPECT_EQ(p50.rows.back().b, nanoseconds(1050));
  const Regression p95 = compared(a, b, {.metric = CallMetric::p95});
  EXPECT_EQ(p95.rows.back().a, nanoseconds(95));
  EXPECT_EQ(p95.rows.back().b, nanoseconds(1095));
}

// Steps of 100 ranks take 1 to 100 ns; the median by nearest rank is the 50th, whatever the metric of the
// calls.
TEST(Regression, TakesTheMedianStepOfAllRanks) {
  const Trace trace = run_of({.ranks = 100, .iterations = 3},
                             [](Iteration, std::int64_t, std::int64_t rank) { return rank + 1; });
  for (const CallMetric metric : {CallMetric::p50, CallMetric::p95}) {
    const Regression result = compared(trace, trace, {.metric = metric});
    ASSERT_TRUE(result.rows.front().is_step);
    EXPECT_EQ(result.rows.front().a, nanoseconds(50));
  }
}

TEST(Regression, SeesATenPercentShift) {
  const Work work{.ranks = 4, .ops = 5, .calls = 8, .iterations = 20};
  const Regression result = compared(run_of(work, noisy(1, 100'000)), run_of(work, noisy(2, 110'000)));
  ASSERT_EQ(result.rows.size(), 6u);
  for (const RegressionRow& row : result.rows) {
    EXPECT_TRUE(row.is_slower) << name_of(row.kind) << " p " << row.p_adjusted;
    EXPECT_NEAR(row.ratio(), 1.1, 0.01);
  }
  EXPECT_TRUE(result.any_slower());
}

TEST(Regression, CallsAFasterRunFaster) {
  const Work work{.calls = 8, .iterations = 20};
  const Regression result = compared(run_of(work, noisy(1, 110'000)), run_of(work, noisy(2, 100'000)));
  EXPECT_TRUE(result.rows.back().is_faster);
  EXPECT_FALSE(result.any_slower());
}

TEST(Regression, ToleratesDifferencesBelowTheTolerance) {
  const Work work{.calls = 8, .iterations = 20};
  const Trace a = run_of(work, noisy(1, 100'000));
  const Trace b = run_of(work, noisy(2, 110'000));
  EXPECT_FALSE(compared(a, b, {.tolerance = 0.15}).any_slower());
  EXPECT_TRUE(compared(a, b, {.tolerance = 0.0}).any_slower());
}

// Equal distributions, no tolerance: only significance prevents an alarm. At 1 % for the whole table, 200
// tables give 2 alarms on average (slower or faster); more than 8 has a probability below 0.03 %.
TEST(Regression, RarelyAlarmsOnEqualDistributions) {
  const Work work{.ranks = 2, .ops = 8, .calls = 4, .iterations = 15};
  int alarms = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Regression result = compared(run_of(work, noisy(2 * seed + 1, 100'000)),
                                       run_of(work, noisy(2 * seed + 2, 100'000)), {.tolerance = 0.0});
    bool any = false;
    for (const RegressionRow& row : result.rows) {
      any = any || row.is_slower || row.is_faster;
    }
    alarms += any ? 1 : 0;
  }
  EXPECT_LE(alarms, 8);
}

TEST(Regression, FindsARunEqualToItself) {
  const Trace trace = run_of({.ops = 3, .calls = 2, .iterations = 12}, noisy(7, 5000));
  for (const RegressionRow& row : compared(trace, trace, {.tolerance = 0.0}).rows) {
    EXPECT_EQ(row.ratio(), 1.0);
    EXPECT_FALSE(row.is_slower || row.is_faster);
  }
}

TEST(Regression, SaysWhenIterationsAreTooFew) {
  const auto shifted = [](std::int64_t length) {
    return [length](Iteration i, std::int64_t, std::int64_t) { return length + i; };
  };
  const Regression few =
      compared(run_of({.iterations = 4}, shifted(1000)), run_of({.iterations = 4}, shifted(2000)));
  EXPECT_FALSE(few.has_enough());
  EXPECT_FALSE(few.any_slower());
  const Iteration enough = static_cast<Iteration>(few.iterations_needed) + 1;
  const Regression many =
      compared(run_of({.iterations = enough}, shifted(1000)), run_of({.iterations = enough}, shifted(2000)));
  EXPECT_TRUE(many.has_enough());
  EXPECT_TRUE(many.any_slower());
}

void expect_refused(const Trace& a, const Trace& b, const std::string& why) {
  const Result<Regression> result = regression(a, b, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
}

TEST(Regression, RefusesSidesWithoutTimes) {
  const Trace timed = run_of({.iterations = 3}, noisy(1, 1000));
  Trace bare = timed;
  bare.streams.front().times.clear();
  expect_refused(bare, timed, "A has no times");
  expect_refused(timed, bare, "B has no times");
  expect_refused(timed, Trace{}, "B has no times");
}

TEST(Regression, RefusesAveragesOfSeveralCalls) {
  const Trace timed = run_of({.iterations = 3}, noisy(1, 1000));
  Trace averaged = timed;
  averaged.provenance.averaged_times = true;
  expect_refused(timed, averaged, "B has averages of several calls, not the times of each");
}

TEST(Regression, RefusesRunsThatAreColdThroughout) {
  const Trace warm = run_of({.iterations = 3}, noisy(1, 1000));
  expect_refused(run_of({.iterations = 0}, noisy(1, 1000)), warm, "A has no call after its first iteration");
}

// Four ranks times 2^62 bytes are 2^64, which is 0 if sums wrap around.
TEST(Regression, HoldsSumsOfImpossibleSizes) {
  const Duration same = [](Iteration, std::int64_t, std::int64_t) { return 100; };
  const Trace huge = run_of({.ranks = 4, .iterations = 2, .elements = std::int64_t{1} << 60}, same);
  const Trace empty = run_of({.ranks = 4, .iterations = 2, .elements = 0}, same);
  const Result<Regression> result = regression(huge, empty, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("9,223,372,036,854,775,807 message bytes"), std::string::npos)
      << result.error().message;
}

TEST(Regression, RefusesOtherJobs) {
  const Work work{.ranks = 2, .ops = 2, .calls = 2, .iterations = 3};
  const Trace trace = run_of(work, noisy(1, 1000));
  expect_refused(trace, run_of({.ranks = 3, .ops = 2, .calls = 2, .iterations = 3}, noisy(1, 1000)),
                 "A ran on 2 ranks, B on 3");
  expect_refused(trace, run_of({.ranks = 2, .ops = 1, .calls = 2, .iterations = 3}, noisy(1, 1000)),
                 "B has no all_gather along dp");
  expect_refused(run_of({.ranks = 2, .ops = 1, .calls = 2, .iterations = 3}, noisy(1, 1000)), trace,
                 "A has no all_gather along dp");
  // 2 ranks of 2 calls of 4096 bytes, against 3 calls.
  expect_refused(trace, run_of({.ranks = 2, .ops = 2, .calls = 3, .iterations = 3}, noisy(1, 1000)),
                 "A has 4 calls of 16,384 message bytes in an iteration, B 6 of 24,576");
  expect_refused(
      trace, run_of({.ranks = 2, .ops = 2, .calls = 2, .iterations = 3, .elements = 2048}, noisy(1, 1000)),
      "B 4 of 32,768");
}

TEST(Regression, ComparesNoCallsThatRandomNumbersDecide) {
  const Trace a = run_of({.iterations = 3}, noisy(1, 1000));
  Trace b = a;
  RankStream& stream = b.streams.front();
  const OpId extra = b.intern({.kind = CommKind::all_gather,
                               .dtype = DType::fp32,
                               .match = Match::random,
                               .group = b.op(stream.events.front().op).group,
                               .input = {8},
                               .output = {8}});
  stream.events.push_back({.op = extra, .iteration = 3});
  stream.times.push_back(stream.times.back());
  const Result<Regression> result = regression(a, b, {});
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
}

}  // namespace
}  // namespace commlens
