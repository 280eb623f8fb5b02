#include "commlens/summary/statistics.hpp"

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Writes small traces call by call.
class TraceOf {
 public:
  explicit TraceOf(std::int64_t ranks) {
    for (Rank rank{0}; rank.value < ranks; ++rank.value) {
      trace.streams.push_back({{rank, rank}, {}, {}, {}});
    }
  }

  struct Call {
    CommKind kind = CommKind::all_reduce;
    std::int64_t bytes = 0;  // of the message
    std::vector<Rank> group;
    Iteration iteration = 0;
    Phase phase = Phase::other;
    Axis axis = Axis::unknown;
    std::string_view name;
  };

  OpId op(const Call& call) {
    CommOp op;
    op.kind = call.kind;
    op.dtype = DType::uint8;
    op.phase = call.phase;
    op.group = trace.groups.intern(call.group, call.axis);
    (call.kind == CommKind::all_gather || call.kind == CommKind::recv ? op.output : op.input).value =
        call.bytes;
    op.name = trace.names.intern(call.name);
    return trace.intern(op);
  }

  /// A call of one rank; `duration` < 0: without a time.
  TraceOf& add(std::size_t rank, const Call& call, std::int64_t duration = -1) {
    RankStream& stream = trace.streams[rank];
    stream.events.push_back({op(call), call.iteration, k_no_micro_batch});
    if (duration >= 0) {
      const nanoseconds start(static_cast<std::int64_t>(stream.events.size()) * 1'000'000);
      stream.times.push_back({start, start, start + nanoseconds(duration)});
    }
    return *this;
  }

  Trace trace;
};

const std::vector<Rank> k_four = {{0}, {1}, {2}, {3}};
const std::vector<Rank> k_pair = {{0}, {1}};
using Call = TraceOf::Call;

/// The only row.
SummaryRow row_of(const Trace& trace, const SummaryOptions& options = {}) {
  const std::vector<SummaryRow> rows = summary_rows(trace, options);
  EXPECT_EQ(rows.size(), 1U);
  return rows.at(0);
}

TEST(Summary, OfNothingIsEmpty) {
  for (const Trace& trace : {Trace(), TraceOf(3).trace}) {
    const Summary summary = summarise(trace);
    EXPECT_TRUE(summary.rows.empty());
    EXPECT_TRUE(summary.sizes.bins.empty());
    EXPECT_TRUE(summary.cold.rows.empty());
    EXPECT_TRUE(summary.cold.first_calls.empty());
    EXPECT_EQ(summary.ranks, 0);
    EXPECT_EQ(summary.calls, 0);
    EXPECT_FALSE(summary.time.has_value());
    EXPECT_FALSE(summary.cold.cold_iteration.has_value());
  }
}

/// An all_reduce of 1000 B on 4 ranks: 2 x 1000 x 3 / 4 = 1500 B a rank. The ranks take 1, 2, 3 and 4 µs.
TEST(Summary, OfAnAllReduceHasTheBandwidthOfNcclTests) {
  TraceOf of(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    of.add(rank, {.bytes = 1000, .group = k_four}, 1000 * (static_cast<std::int64_t>(rank) + 1));
  }
  const SummaryRow row = row_of(of.trace);
  EXPECT_EQ(row.axis, Axis::world);
  EXPECT_EQ(row.group_size, 4);
  EXPECT_EQ(row.calls, 4);
  EXPECT_EQ(row.message, Bytes{4000});
  EXPECT_EQ(row.wire, Bytes{6000});
  EXPECT_EQ(row.time->total, nanoseconds(10'000));
  EXPECT_EQ(row.time->p50, nanoseconds(2000));
  EXPECT_EQ(row.time->p95, nanoseconds(4000));
  EXPECT_DOUBLE_EQ(row.algorithm_bandwidth->value, 4e8);  // 4000 B in 10 µs
  EXPECT_DOUBLE_EQ(row.bus_bandwidth->value, 6e8);        // times 2 x 3 / 4
}

/// 2000 B in 1 µs and 1000 B in 4 µs: 3000 B / 5 µs = 0.6 GB/s, not the mean of 2 and 0.25 GB/s.
TEST(Summary, DividesTheSumOfBytesByTheSumOfTimes) {
  TraceOf of(2);
  of.add(0, {.kind = CommKind::all_gather, .bytes = 2000, .group = k_pair}, 1000);
  of.add(0, {.kind = CommKind::all_gather, .bytes = 1000, .group = k_pair}, 4000);
  const SummaryRow row = row_of(of.trace);
  EXPECT_EQ(row.smallest, Bytes{1000});
  EXPECT_EQ(row.largest, Bytes{2000});
  EXPECT_DOUBLE_EQ(row.algorithm_bandwidth->value, 6e8);
  EXPECT_DOUBLE_EQ(row.bus_bandwidth->value, 3e8);  // (2 - 1) / 2
}

TEST(Summary, HasNoBandwidthWhereNoneIsMeant) {
  const std::vector<Rank> alone = {{0}};
  const std::vector<Call> calls = {{.kind = CommKind::all_reduce, .bytes = 8, .group = alone},
                                   {.kind = CommKind::barrier, .bytes = 0, .group = k_pair},
                                   {.kind = CommKind::other, .bytes = 8, .group = k_pair},
                                   {.kind = CommKind::broadcast, .bytes = 0, .group = k_pair}};
  for (const Call& call : calls) {
    const SummaryRow row = row_of(TraceOf(2).add(0, call, 100).trace);
    EXPECT_FALSE(row.algorithm_bandwidth.has_value()) << name_of(call.kind);
    EXPECT_FALSE(row.bus_bandwidth.has_value()) << name_of(call.kind);
  }
  const SummaryRow instant = row_of(TraceOf(2).add(0, {.bytes = 8, .group = k_pair}, 0).trace);
  EXPECT_FALSE(instant.algorithm_bandwidth.has_value());
}

TEST(Summary, OfAPredictionHasNoTimes) {
  const Summary summary = summarise(TraceOf(2).add(0, {.bytes = 8, .group = k_pair}).trace);
  EXPECT_FALSE(summary.rows[0].time.has_value());
  EXPECT_FALSE(summary.rows[0].bus_bandwidth.has_value());
  EXPECT_FALSE(summary.time.has_value());
  EXPECT_EQ(summary.coverage.without_times, 1);
  EXPECT_EQ(summary.sizes.timed_calls, 0);
}

/// Rank 0 has times, rank 1 has none: bandwidth is of what rank 0 moved alone.
TEST(Summary, TakesBandwidthFromTheCallsThatHaveTimes) {
  TraceOf of(2);
  of.add(0, {.bytes = 100, .group = k_pair}, 1000).add(1, {.bytes = 100, .group = k_pair});
  const Summary summary = summarise(of.trace);
  EXPECT_EQ(summary.rows[0].calls, 2);
  EXPECT_EQ(summary.rows[0].time->calls, 1);
  EXPECT_DOUBLE_EQ(summary.rows[0].algorithm_bandwidth->value, 1e8);
  EXPECT_EQ(summary.coverage.without_times, 1);
}

/// Three ranks all_reduce 10 B: a ring moves 2 x 10 x 2 = 40 B in all, although no rank sends whole bytes.
TEST(Summary, RoundsWireBytesOnceForAllRanks) {
  TraceOf of(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    of.add(rank, {.bytes = 10, .group = {{0}, {1}, {2}}});
  }
  EXPECT_EQ(summarise(of.trace).wire, Bytes{40});
}

TEST(Summary, CountsAClassOnceForEachOfItsRanks) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 4}, {Axis::tp, 1}});
  GroupPattern pattern;
  pattern.axis = Axis::dp;
  pattern.spans = {{Axis::dp, {Span::Shape::all}}};
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group = trace.groups.intern(pattern);
  op.input.value = 100;
  const OpId id = trace.intern(op);
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{id, 0}, {id, 0}}, {}, {}});
  trace.streams[0].times = {{{}, {}, nanoseconds(10)}, {{}, nanoseconds(10), nanoseconds(40)}};
  const Summary all = summarise(trace);
  EXPECT_EQ(all.ranks, 4);
  EXPECT_EQ(all.calls, 8);
  EXPECT_EQ(all.message, Bytes{800});
  EXPECT_EQ(all.wire, Bytes{1200});
  EXPECT_EQ(all.time->total, nanoseconds(160));
  EXPECT_EQ(all.sizes.calls, 8);
  EXPECT_EQ(all.sizes.time, nanoseconds(160));
  const Summary one = summarise(trace, {.rank = Rank{2}});
  EXPECT_EQ(one.ranks, 1);
  EXPECT_EQ(one.calls, 2);
  EXPECT_EQ(one.time->total, nanoseconds(40));
  EXPECT_EQ(summarise(trace, {.rank = Rank{4}}).calls, 0);
}

/// Two ranks: 2 x 202 x 1 / 2 on each of the wire, and a send of 14.
TEST(Summary, MergesRanksAndSizesMostBytesFirst) {
  TraceOf of(2);
  of.add(0, {.bytes = 2, .group = k_pair}).add(0, {.bytes = 200, .group = k_pair});
  of.add(0, {.kind = CommKind::send, .bytes = 14, .group = k_pair, .axis = Axis::pp});
  of.add(1, {.bytes = 2, .group = k_pair}).add(1, {.bytes = 200, .group = k_pair});
  const std::vector<SummaryRow> rows = summary_rows(of.trace);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].axis, Axis::world);  // an unnamed group of all ranks
  EXPECT_EQ(rows[0].calls, 4);
  EXPECT_EQ(rows[0].smallest, Bytes{2});
  EXPECT_EQ(rows[0].largest, Bytes{200});
  EXPECT_EQ(rows[0].message, Bytes{404});
  EXPECT_EQ(rows[0].wire, Bytes{404});
  EXPECT_EQ(rows[1].kind, CommKind::send);
  EXPECT_EQ(rows[1].wire, Bytes{14});
}

/// A ring over ranks 0 1 | 2 3 on nodes of two crosses the border twice of four times.
TEST(Summary, SplitsWireBytesByNode) {
  TraceOf of(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    of.add(rank, {.bytes = 1000, .group = k_four});
  }
  const SummaryRow row = row_of(of.trace, {.ranks_per_node = 2});
  EXPECT_EQ(row.wire, Bytes{6000});
  EXPECT_EQ(row.wire_inter_node, Bytes{3000});
}

TraceOf four_iterations() {
  TraceOf of(1);
  const auto call = [](Iteration iteration, Phase phase, std::int64_t bytes) {
    return Call{.bytes = bytes, .group = k_pair, .iteration = iteration, .phase = phase, .axis = Axis::dp};
  };
  of.add(0, call(-1, Phase::init, 64), 900);
  of.add(0, call(0, Phase::forward, 64), 500).add(0, call(0, Phase::backward, 64), 300);
  of.add(0, call(1, Phase::forward, 64), 100).add(0, call(1, Phase::backward, 64), 60);
  of.add(0, call(2, Phase::forward, 64), 80).add(0, call(2, Phase::backward, 128), 40);
  return of;
}

TEST(Summary, GroupsByPhase) {
  const std::vector<SummaryRow> rows = summary_rows(four_iterations().trace, {.by_phase = true});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].phase, Phase::init);
  EXPECT_EQ(rows[1].phase, Phase::forward);
  EXPECT_EQ(rows[1].calls, 3);
  EXPECT_EQ(rows[1].time->total, nanoseconds(680));
  EXPECT_EQ(rows[2].phase, Phase::backward);
  EXPECT_EQ(rows[2].message, Bytes{256});
}

TEST(Summary, GroupsByIterationAndPhase) {
  const std::vector<SummaryRow> rows =
      summary_rows(four_iterations().trace, {.by_phase = true, .by_iteration = true});
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[0].iteration, -1);
  EXPECT_EQ(rows[6].iteration, 2);
  EXPECT_EQ(rows[6].phase, Phase::backward);
  EXPECT_EQ(rows[6].message, Bytes{128});
}

TEST(Summary, OfSomeIterationsSkipsTheOthers) {
  const Summary summary = summarise(four_iterations().trace, {.iterations = std::pair(1, 2)});
  EXPECT_EQ(summary.iterations.list(), (std::vector<Iteration>{1, 2}));
  EXPECT_EQ(summary.calls, 4);
  EXPECT_EQ(summary.time->total, nanoseconds(280));
  EXPECT_FALSE(summary.cold.cold_iteration.has_value());
  EXPECT_EQ(summary.cold.warm_iterations, 2);
  EXPECT_TRUE(summary.cold.first_calls.empty()) << "the group's first call was in iteration -1";
}

TEST(ColdStart, IsTheFirstIterationAgainstTheLaterOnes) {
  const ColdStart cold = summarise(four_iterations().trace).cold;
  EXPECT_EQ(cold.cold_iteration, 0);
  EXPECT_EQ(cold.cold_ranks, 1);
  EXPECT_EQ(cold.warm_iterations, 2);
  ASSERT_EQ(cold.rows.size(), 1U);
  EXPECT_EQ(cold.rows[0].cold_calls, 2);
  EXPECT_EQ(cold.rows[0].cold->total, nanoseconds(800));
  EXPECT_EQ(cold.rows[0].warm_calls, 4);
  EXPECT_EQ(cold.rows[0].warm->total, nanoseconds(280));
  EXPECT_EQ(cold.rows[0].warm_message, Bytes{320});
}

/// The recording begins at iteration 7 on rank 0 and at 8 on rank 1: each has a cold one, but not the same.
TEST(ColdStart, IsEachRanksOwn) {
  TraceOf of(2);
  of.add(0, {.bytes = 8, .group = k_pair, .iteration = 7})
      .add(0, {.bytes = 8, .group = k_pair, .iteration = 8});
  of.add(1, {.bytes = 8, .group = k_pair, .iteration = 8});
  const Summary summary = summarise(of.trace, {.by_iteration = true});
  EXPECT_FALSE(summary.cold.cold_iteration.has_value());
  EXPECT_EQ(summary.cold.cold_ranks, 2);
  EXPECT_EQ(summary.cold.warm_iterations, 1);
  EXPECT_EQ(summary.cold.rows[0].cold_calls, 2);
  EXPECT_EQ(summary.cold.rows[0].warm_calls, 1);
  ASSERT_EQ(summary.rows.size(), 2U);
  EXPECT_EQ(summary.rows[1].calls, 2) << "cold on one rank and warm on the other, but one iteration";
}

TEST(ColdStart, IsUnknownWithoutIterations) {
  TraceOf of(1);
  of.add(0, {.bytes = 8, .group = k_pair, .iteration = k_unknown_iteration}, 5);
  const Summary summary = summarise(of.trace, {.by_iteration = true});
  EXPECT_TRUE(summary.cold.rows.empty());
  EXPECT_TRUE(summary.iterations.empty());
  EXPECT_EQ(summary.rows.at(0).iteration, k_unknown_iteration);
}

/// The group's first call takes 1000 ns; the later ones of the same size 100 and 300 ns: 800 ns more than
/// their mean. The one of 9 bytes is not alike. The pair of ranks 0 and 2 has a first call and none to
/// compare with.
TEST(FirstCalls, AreComparedWithTheMeanOfLaterCallsAlike) {
  TraceOf of(1);
  const Call call{.bytes = 8, .group = k_pair, .axis = Axis::tp};
  of.add(0, call, 1000).add(0, call, 100);
  of.add(0, {.bytes = 9, .group = k_pair, .axis = Axis::tp}, 7000);
  of.add(0, {.bytes = 8, .group = k_pair, .phase = Phase::backward, .axis = Axis::tp}, 300);
  of.add(0, {.kind = CommKind::send, .bytes = 8, .group = {{0}, {2}}, .axis = Axis::pp}, 50);
  const std::vector<FirstCallRow> rows = summarise(of.trace).cold.first_calls;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].axis, Axis::tp);
  EXPECT_EQ(rows[0].calls, 1);
  EXPECT_EQ(rows[0].time->total, nanoseconds(1000));
  EXPECT_EQ(rows[0].compared, 1);
  EXPECT_EQ(rows[0].compared_time, nanoseconds(1000));
  EXPECT_EQ(rows[0].later_time, nanoseconds(200));
  EXPECT_EQ(rows[1].kind, CommKind::send);
  EXPECT_EQ(rows[1].calls, 1);
  EXPECT_EQ(rows[1].compared, 0);
}

TEST(FirstCalls, AreOfEachRankAndGroup) {
  TraceOf of(2);
  for (const std::size_t rank : {0U, 1U}) {
    for (const std::int64_t duration : {500, 100, 100}) {
      of.add(rank, {.bytes = 8, .group = k_pair, .axis = Axis::dp}, duration);
    }
  }
  const FirstCallRow row = summarise(of.trace).cold.first_calls.at(0);
  EXPECT_EQ(row.calls, 2);
  EXPECT_EQ(row.compared_time, nanoseconds(1000));
  EXPECT_EQ(row.later_time, nanoseconds(200));
}

TEST(SizeHistogram, OfASummaryHasTimes) {
  TraceOf of(1);
  of.add(0, {.bytes = 100, .group = k_pair}, 10).add(0, {.bytes = 127, .group = k_pair}, 20);
  of.add(0, {.bytes = 65536, .group = k_pair}, 70);
  of.add(0, {.kind = CommKind::barrier, .group = k_pair}, 1000);
  const SizeHistogram sizes = summarise(of.trace).sizes;
  ASSERT_EQ(sizes.bins.size(), 2U);
  EXPECT_EQ(sizes.bins[0].lower, Bytes{64});
  EXPECT_EQ(sizes.bins[0].calls, 2);
  EXPECT_EQ(sizes.bins[0].time, nanoseconds(30));
  EXPECT_EQ(sizes.bins[1].time, nanoseconds(70));
  EXPECT_EQ(sizes.small_time, nanoseconds(30));
  EXPECT_DOUBLE_EQ(sizes.small_share_by_time(), 0.3);
  EXPECT_EQ(summarise(of.trace, {.small_limit = Bytes{101}}).sizes.small_time, nanoseconds(10));
}

/// 16 ranks are the job; a group of 8 is not the world, although no rank beyond it is in the trace.
TEST(Summary, TakesTheJobsSizeFromTheSourceThatStatesIt) {
  std::vector<Rank> eight;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    eight.push_back({rank});
  }
  TraceOf of(8);
  of.add(0, {.bytes = 1000, .group = eight});
  EXPECT_EQ(row_of(of.trace).axis, Axis::world);
  of.trace.provenance.job_ranks = 16;
  EXPECT_EQ(row_of(of.trace).axis, Axis::unknown);
  // All 16, of which two were imported.
  TraceOf two(2);
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group = two.trace.groups.intern_hidden(16, "");
  two.trace.streams[0].events.push_back({two.trace.intern(op), 0, k_no_micro_batch});
  EXPECT_EQ(row_of(two.trace).axis, Axis::unknown);
  two.trace.provenance.job_ranks = 16;
  EXPECT_EQ(row_of(two.trace).axis, Axis::world);
}

TEST(Summary, OfAveragesHasSumsAlone) {
  TraceOf of(4);
  of.add(0, {.bytes = 1000, .group = k_four}, 1000).add(0, {.bytes = 1000, .group = k_four}, 3000);
  of.trace.provenance.averaged_times = true;
  const Summary summary = summarise(of.trace);
  ASSERT_TRUE(summary.time && summary.rows.at(0).time);
  for (const TimeStats& time : {*summary.time, *summary.rows[0].time}) {
    EXPECT_EQ(time.calls, 2);
    EXPECT_EQ(time.total, nanoseconds(4000));
    EXPECT_FALSE(time.shortest || time.longest || time.p50 || time.p95 || time.has_interval);
  }
  EXPECT_DOUBLE_EQ(summary.rows[0].bus_bandwidth->value, 7.5e8);  // 2 x 1500 B in 4 µs
  EXPECT_TRUE(summary.cold.first_calls.empty());
  EXPECT_FALSE(summary.sizes.has_time_shares());
  EXPECT_TRUE(summary.coverage.averaged_times);
}

/// [0, 10) and [5, 30) are 30 ns on rank 0, [100, 140) 40 ns on rank 1; rank 2 did not compute.
TEST(Summary, AddsUpHowLongRanksComputed) {
  Trace trace = TraceOf(3).trace;
  trace.streams[0].compute = {{nanoseconds(0), nanoseconds(10), 0}, {nanoseconds(5), nanoseconds(30), 0}};
  trace.streams[1].compute = {{nanoseconds(100), nanoseconds(140), 1}};
  const Summary all = summarise(trace);
  EXPECT_EQ(all.calls, 0);
  EXPECT_EQ(all.computing_ranks, 2);
  EXPECT_EQ(all.computing, nanoseconds(70));
  const Summary one = summarise(trace, {.rank = Rank{1}});
  EXPECT_EQ(one.computing_ranks, 1);
  EXPECT_EQ(one.computing, nanoseconds(40));
  EXPECT_EQ(summarise(trace, {.iterations = std::pair{0, 0}}).computing, nanoseconds(30));
}

TEST(Summary, CountsCallsWhoseWireBytesAreNotKnown) {
  TraceOf of(2);
  of.add(0, {.bytes = 1000, .group = k_pair});                                          // known
  of.add(0, {.bytes = 1000, .group = {}}).add(1, {.bytes = 1000, .group = {}});         // group not known
  of.add(0, {.kind = CommKind::other, .bytes = 8, .group = k_pair, .name = "gather"});  // no formula
  const Summary summary = summarise(of.trace);
  EXPECT_EQ(summary.calls_without_wire, 3);
  EXPECT_EQ(summary.wire, Bytes{1000});  // 2 x 1000 x 1 / 2
}

TEST(Coverage, NamesWhatIsNotClassified) {
  TraceOf of(2);
  for (int call = 0; call < 3; ++call) {
    of.add(0, {.kind = CommKind::other, .bytes = 4, .group = k_pair, .name = "MPI_Scan"}, 1);
  }
  of.add(0, {.kind = CommKind::other, .bytes = 0, .group = k_pair, .name = "MPI_Put"}, 1);
  of.add(0, {.kind = CommKind::barrier, .group = k_pair}, 1);
  of.trace.provenance.skip("unfinished call", 4);
  of.trace.provenance.skip("call not recorded, disk full", 5);
  of.trace.provenance.skip("call not recorded, recorder late", 6);
  of.trace.provenance.skip("torn record");
  const Coverage coverage = summarise(of.trace).coverage;
  ASSERT_EQ(coverage.unclassified.size(), 2U);
  EXPECT_EQ(of.trace.names.text(coverage.unclassified[0].name), "MPI_Scan");
  EXPECT_EQ(coverage.unclassified[0].calls, 3);
  EXPECT_EQ(coverage.unclassified[1].calls, 1);
  EXPECT_EQ(coverage.without_bytes, 1);
  EXPECT_EQ(coverage.without_times, 0);
  EXPECT_EQ(coverage.unfinished, 4);
  EXPECT_EQ(coverage.dropped, 11);
  EXPECT_EQ(coverage.skipped.size(), 4U);
}

TEST(Summary, OfADirectoryIsThatOfItsTrace) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const test_support::ScratchDirectory scratch;
    const Trace trace = test_support::RandomTrace(seed).make();
    write_trace(trace, scratch / "trace");
    SummaryBuilder builder({.by_phase = true, .by_iteration = true});
    const Result<Trace> tables =
        visit_calls(scratch / "trace", [&](const CallBlock& block) { builder.add(block); });
    ASSERT_TRUE(tables) << tables.error().message;
    const Summary streamed = builder.finish(*tables);
    const Summary direct = summarise(trace, {.by_phase = true, .by_iteration = true});
    EXPECT_EQ(streamed.rows.size(), direct.rows.size()) << seed;
    EXPECT_EQ(streamed.calls, direct.calls) << seed;
    EXPECT_EQ(streamed.wire, direct.wire) << seed;
    EXPECT_EQ(streamed.time, direct.time) << seed;
  }
}

}  // namespace
}  // namespace commlens
