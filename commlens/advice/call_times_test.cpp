#include "commlens/advice/call_times.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

struct TimedCall {
  CommKind kind = CommKind::all_reduce;
  std::int64_t elements = 0;  // fp32, of the message
  std::int64_t nanoseconds_each = 0;
};

/// The group of each of four ranks, and what the trace calls its axis.
struct FourRanks {
  std::vector<std::vector<Rank>> groups = std::vector<std::vector<Rank>>(4, {{0}, {1}, {2}, {3}});
  Axis axis = Axis::dp;
};

/// Four ranks that make `calls` one after another in each of `iterations` iterations after initialisation,
/// every call of iteration 0 a hundred times as long. `gap` passes between iterations.
Trace timed(const std::vector<TimedCall>& calls, Iteration iterations, std::int64_t gap = 0,
            const FourRanks& ranks = {}) {
  Trace trace;
  trace.provenance.source = Source::recorded;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const GroupId group = trace.groups.intern(ranks.groups.at(static_cast<std::size_t>(rank)), ranks.axis);
    RankStream stream{.ranks = {{rank}, {rank}}};
    std::int64_t now = 0;
    for (Iteration iteration = 0; iteration < iterations; ++iteration) {
      for (const TimedCall& call : calls) {
        const bool gathers = call.kind == CommKind::all_gather;
        const bool scatters = call.kind == CommKind::reduce_scatter;
        const OpId op = trace.intern({.kind = call.kind,
                                      .dtype = DType::fp32,
                                      .group = group,
                                      .input = {gathers ? call.elements / 4 : call.elements},
                                      .output = {scatters ? call.elements / 4 : call.elements}});
        const std::int64_t length = call.nanoseconds_each * (iteration == 0 ? 100 : 1);
        stream.events.push_back({.op = op, .iteration = iteration});
        stream.times.push_back({nanoseconds(now), nanoseconds(now), nanoseconds(now + length)});
        now += length;
      }
      now += gap;
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

CallShape shape(CommKind kind, std::int64_t bytes) { return {kind, Axis::dp, 4, {bytes}}; }

const Mesh k_data_only{{Axis::pp, 1}, {Axis::dp, 4}, {Axis::tp, 1}};

CallTimes times_of(const Trace& trace, const Mesh& mesh = k_data_only) {
  const std::optional<CallTimes> times = CallTimes::of(trace, mesh, Bytes{65536});
  EXPECT_TRUE(times.has_value());
  return times.value_or(CallTimes{});
}

TEST(CallTimes, AreMediansWithoutTheColdIteration) {
  const CallTimes times =
      times_of(timed({{CommKind::all_reduce, 256, 1000}, {CommKind::all_reduce, 256, 3000}}, 3));
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::all_reduce, 1024)), 2000.0);
}

TEST(CallTimes, AreNotTakenFromAveragesOfSeveralCalls) {
  Trace trace = timed({{CommKind::all_reduce, 256, 1000}}, 3);
  trace.provenance.averaged_times = true;
  EXPECT_FALSE(CallTimes::of(trace, k_data_only, Bytes{65536}).has_value());
}

// 1 KiB takes 1 us and 3 KiB take 5 us: 2 KiB take 3 us, 512 B as 1 KiB, 6 KiB twice as 3 KiB.
TEST(CallTimes, AreInterpolatedBetweenSizes) {
  const CallTimes times =
      times_of(timed({{CommKind::all_reduce, 256, 1000}, {CommKind::all_reduce, 768, 5000}}, 2));
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::all_reduce, 2048)), 3000.0);
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::all_reduce, 512)), 1000.0);
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::all_reduce, 6144)), 10'000.0);
}

// An all_reduce of m sends what a reduce_scatter of 2 m does (bus factors 1.5 and 0.75): 6 KiB are as 3 KiB.
TEST(CallTimes, OfAKindThatTheTraceLacksAreThoseOfTheSameTraffic) {
  const CallTimes times = times_of(timed({{CommKind::all_reduce, 768, 5000}}, 2));
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::reduce_scatter, 6144)), 5000.0);
  EXPECT_EQ(times.nanoseconds_of(shape(CommKind::all_to_all, 6144)), std::nullopt);
  EXPECT_EQ(times.nanoseconds_of({CommKind::all_reduce, Axis::tp, 2, {3072}}), std::nullopt);
}

// Recordings of frameworks know ranks, not axes. Of 2 x 2 ranks, 0 and 2 differ in their data rank only.
TEST(CallTimes, FindTheAxisOfAGroupByItsMembers) {
  const FourRanks along_data{{{{0}, {2}}, {{1}, {3}}, {{0}, {2}}, {{1}, {3}}}, Axis::unknown};
  const CallTimes times = times_of(timed({{CommKind::all_reduce, 256, 1000}}, 2, 0, along_data),
                                   Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 2}});
  EXPECT_EQ(times.nanoseconds_of({CommKind::all_reduce, Axis::dp, 2, {1024}}), 1000.0);
  EXPECT_EQ(times.nanoseconds_of({CommKind::all_reduce, Axis::tp, 2, {1024}}), std::nullopt);
}

TEST(CallTimes, KnowAGroupOfAllRanksUnderEveryAxis) {
  for (const Axis axis : {Axis::dp, Axis::world, Axis::unknown}) {
    const CallTimes times =
        times_of(timed({{CommKind::all_reduce, 256, 1000}}, 2, 0, {FourRanks{}.groups, axis}));
    EXPECT_EQ(times.nanoseconds_of({CommKind::all_reduce, Axis::dp, 4, {1024}}), 1000.0) << name_of(axis);
    EXPECT_EQ(times.nanoseconds_of({CommKind::all_reduce, Axis::world, 4, {1024}}), 1000.0) << name_of(axis);
  }
}

// Two calls of the largest time there is: a sum that wrapped would be negative.
TEST(CallTimes, HoldSumsOfImpossibleDurations) {
  Trace trace = timed({{CommKind::all_reduce, 256, 1000}}, 3);
  for (RankStream& stream : trace.streams) {
    for (Times& when : stream.times) {
      when = {nanoseconds(INT64_MIN), nanoseconds(INT64_MIN), nanoseconds(INT64_MAX)};
    }
  }
  EXPECT_EQ(times_of(trace).small().time, nanoseconds(INT64_MAX));
}

TEST(CallTimes, OfOneRankAreNothing) {
  const CallTimes times = times_of(timed({{CommKind::all_reduce, 768, 5000}}, 2));
  EXPECT_EQ(times.nanoseconds_of({CommKind::all_gather, Axis::self, 1, {3072}}), 0.0);
}

// Of 4 ranks and 2 steady iterations: 8 calls of 1 KiB at 1 us, 8 of 256 KiB at 4 us.
TEST(CallTimes, KnowTheShareOfSmallMessages) {
  const CallTimes times =
      times_of(timed({{CommKind::all_reduce, 256, 1000}, {CommKind::all_gather, 65536, 4000}}, 3));
  EXPECT_EQ(times.small().calls, 8);
  EXPECT_EQ(times.small().all_calls, 16);
  EXPECT_EQ(times.small().time, nanoseconds(8000));
  EXPECT_EQ(times.small().share(), 0.2);
}

// From the first call of iteration 1 to that of iteration 2: 5 us of calls and 2 us between them.
TEST(CallTimes, KnowTheLengthOfAStep) {
  const std::vector<TimedCall> calls = {{CommKind::all_reduce, 256, 1000}, {CommKind::all_gather, 256, 4000}};
  EXPECT_EQ(times_of(timed(calls, 4, 2000)).step(), nanoseconds(7000));
  EXPECT_EQ(times_of(timed(calls, 2, 2000)).step(), std::nullopt);
}

TEST(CallTimes, AreAbsentWithoutTimesOrSteadyIterations) {
  Trace bare = timed({{CommKind::all_reduce, 256, 1000}}, 3);
  for (RankStream& stream : bare.streams) {
    stream.times.clear();
  }
  EXPECT_FALSE(CallTimes::of(bare, k_data_only, Bytes{65536}).has_value());
  const Trace one_iteration = timed({{CommKind::all_reduce, 256, 1000}}, 1);
  EXPECT_FALSE(CallTimes::of(one_iteration, k_data_only, Bytes{65536}).has_value());
  EXPECT_FALSE(CallTimes::of(Trace{}, k_data_only, Bytes{65536}).has_value());
}

// Two calls of 1 KiB (1 us each) become one of 3 KiB (5 us): 3 us more.
TEST(TimeSaved, IsThatOfTheCallsThatChange) {
  const CallTimes times =
      times_of(timed({{CommKind::all_reduce, 256, 1000}, {CommKind::all_reduce, 768, 5000}}, 2));
  PlannedStep before;
  before.calls = {{shape(CommKind::all_reduce, 1024), 2}, {shape(CommKind::all_to_all, 1024), 7}};
  PlannedStep after;
  after.calls = {{shape(CommKind::all_reduce, 3072), 1}, {shape(CommKind::all_to_all, 1024), 7}};
  EXPECT_EQ(time_saved(before, after, times), nanoseconds(-3000));
  after.calls[shape(CommKind::all_to_all, 1024)] = 6;
  EXPECT_EQ(time_saved(before, after, times), std::nullopt);
}

/// ZeRO-3 whose persistence threshold keeps parameters gathered that are then gathered one by one.
Job persistent_job() {
  Job job = small_job("deepspeed", 4, 128);
  job.model.vocab = job.model.raw_vocab = 1000;
  job.train.zero_stage = 3;
  job.train.micro_batch = 2;
  job.train.persistence_threshold = 200;
  deepspeed::options(job).reduce_bucket_size = 2'000'000;
  return job;
}

// The 26 gathers of 512 bytes that a threshold of 0 saves, at 1 us each in the trace; the rest does not
// change. A recording of DeepSpeed does not name the axis.
TEST(Advice, EstimatesTimeFromTheTrace) {
  std::vector<TimedCall> calls(26, {CommKind::all_gather, 128, 1000});
  calls.push_back({CommKind::all_gather, 1'050'112, 50'000});
  calls.push_back({CommKind::all_gather, 1'053'440, 50'000});
  calls.push_back({CommKind::reduce_scatter, 1'053'440, 100'000});
  calls.push_back({CommKind::all_reduce, 2, 500});
  for (const Axis axis : {Axis::dp, Axis::unknown}) {
    const Trace trace = timed(calls, 4, 0, {FourRanks{}.groups, axis});
    const Advice advice = advised(persistent_job(), {}, &trace);
    const Recommendation* const made = find(advice, "persistence_threshold");
    ASSERT_NE(made, nullptr) << name_of(axis);
    EXPECT_EQ(made->time_saved, nanoseconds(26'000)) << name_of(axis);
    EXPECT_FALSE(made->time_source.empty());
    EXPECT_EQ(advice.small.calls, 4 * 3 * 27);
  }
}

// An all_to_all replaces no gather.
TEST(Advice, ReportsTheCallThatTheTraceCannotEstimate) {
  const Trace trace = timed({{CommKind::all_to_all, 128, 1000}}, 4);
  const Advice advice = advised(persistent_job(), {}, &trace);
  const Recommendation* const made = find(advice, "persistence_threshold");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->time_saved, std::nullopt);
  EXPECT_TRUE(says(advice.not_judged,
                   "persistence_threshold: no time is estimated, the trace has no call comparable to "
                   "an all_gather of 512 B along dp (4 ranks)"));
}

}  // namespace
}  // namespace commlens
