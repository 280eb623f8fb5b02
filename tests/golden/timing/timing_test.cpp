// Traces of a few calls, worked out by hand: README.md has the arithmetic.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/summary/bubble.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

nanoseconds ns(std::int64_t count) { return nanoseconds(count); }

Trace trace_of(const std::string& name) {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path root = source == nullptr ? "." : source;
  Result<Trace> trace = formats::calls_jsonl::read(root / "tests/golden/timing" / (name + ".jsonl"));
  EXPECT_TRUE(trace) << trace.error().message;
  return trace ? std::move(*trace) : Trace();
}

/// The row of one rank and iteration.
IterationOverlap overlap_of(const std::string& name, std::int64_t rank = 0, Iteration iteration = 0) {
  for (const IterationOverlap& row : communication_overlap(trace_of(name))) {
    if (row.ranks.first.value == rank && row.iteration == iteration) {
      return row;
    }
  }
  ADD_FAILURE() << name << " has no rank " << rank << " in iteration " << iteration;
  return {};
}

CommunicationTime hidden_time(std::int64_t calls, std::int64_t sum, std::int64_t exposed,
                              std::int64_t overlapped) {
  return {calls, ns(sum), ns(exposed + overlapped), ns(exposed), ns(overlapped)};
}

SummaryRow row_of(const std::string& name, CommKind kind) {
  for (const SummaryRow& row : summary_rows(trace_of(name))) {
    if (row.kind == kind) {
      return row;
    }
  }
  ADD_FAILURE() << name << " has no such op";
  return {};
}

double algorithm_gbs(const SummaryRow& row) { return row.algorithm_bandwidth.value().value / 1e9; }
double bus_gbs(const SummaryRow& row) { return row.bus_bandwidth.value().value / 1e9; }

/// Waits and lateness in the collectives of a rank: instances, last, caused, waited.
Lateness late(std::int64_t instances, std::int64_t last, std::int64_t caused, std::int64_t waited) {
  return {instances, last, ns(caused), ns(waited)};
}

TEST(GoldenTiming, AllReduceOfTwoRanks) {
  const SummaryRow row = row_of("all_reduce", CommKind::all_reduce);
  EXPECT_DOUBLE_EQ(algorithm_gbs(row), 12.5);
  EXPECT_DOUBLE_EQ(bus_gbs(row), 12.5);
  const IterationOverlap first = overlap_of("all_reduce", 0);
  EXPECT_EQ(first.all, (CommunicationTime{1, ns(100), ns(100), {}, {}}));
  EXPECT_EQ(first.compute, std::nullopt);
  EXPECT_EQ(first.idle, std::nullopt);
  EXPECT_EQ(overlap_of("all_reduce", 1).all.total, ns(60));
  const Stragglers waits = stragglers(trace_of("all_reduce"));
  ASSERT_EQ(waits.collectives.size(), 1U);
  EXPECT_EQ(waits.collectives[0],
            (CollectiveWait{CommKind::all_reduce, Axis::unknown, 2, 1, 0, ns(40), ns(160), ns(40)}));
  EXPECT_EQ(waits.ranks[0].collectives, late(1, 0, 0, 40));
  EXPECT_EQ(waits.ranks[1].collectives, late(1, 1, 40, 0));
  ASSERT_EQ(waits.worst.size(), 1U);
  EXPECT_EQ(waits.worst[0].last, Rank{1});
  EXPECT_EQ(waits.worst[0].last_arrival, ns(40));
  EXPECT_EQ(waits.worst[0].longest_waiter, Rank{0});
}

TEST(GoldenTiming, PartlyHiddenCalls) {
  const SummaryRow gather = row_of("partly_hidden", CommKind::all_gather);
  EXPECT_DOUBLE_EQ(algorithm_gbs(gather), 5);
  EXPECT_DOUBLE_EQ(bus_gbs(gather), 2.5);
  const SummaryRow scatter = row_of("partly_hidden", CommKind::reduce_scatter);
  EXPECT_DOUBLE_EQ(algorithm_gbs(scatter), 20);
  EXPECT_DOUBLE_EQ(bus_gbs(scatter), 10);
  const IterationOverlap row = overlap_of("partly_hidden");
  EXPECT_EQ(row.span, (Interval{ns(0), ns(500)}));
  EXPECT_EQ(row.all, hidden_time(2, 350, 170, 130));
  EXPECT_EQ(row.compute, ns(330));
  EXPECT_EQ(row.idle, ns(0));
  ASSERT_EQ(row.ops.size(), 2U);
  EXPECT_EQ(row.ops[0].kind, CommKind::all_gather);
  EXPECT_EQ(row.ops[0].time, hidden_time(1, 200, 90, 110));
  EXPECT_EQ(row.ops[1].time, hidden_time(1, 150, 120, 30));
  ASSERT_EQ(row.streams.size(), 1U);
  EXPECT_EQ(row.streams[0].time, row.all);
  const Stragglers waits = stragglers(trace_of("partly_hidden"));
  EXPECT_EQ(waits.instances, 0);
  EXPECT_EQ(waits.incomplete, 2);
}

TEST(GoldenTiming, StreamsOfTwoGroups) {
  const IterationOverlap row = overlap_of("two_streams");
  EXPECT_EQ(row.all, hidden_time(2, 200, 130, 20));
  ASSERT_EQ(row.streams.size(), 2U);
  EXPECT_EQ(row.streams[0].members, (std::vector{Rank{0}, Rank{1}}));
  EXPECT_EQ(row.streams[0].time, hidden_time(1, 100, 100, 0));
  EXPECT_EQ(row.streams[1].time, hidden_time(1, 100, 80, 20));
}

TEST(GoldenTiming, HiddenAndExposedCalls) {
  const IterationOverlap hidden = overlap_of("hidden");
  EXPECT_EQ(hidden.all, hidden_time(1, 100, 0, 100));
  EXPECT_EQ(hidden.idle, ns(0));
  const IterationOverlap exposed = overlap_of("exposed");
  EXPECT_EQ(exposed.all, hidden_time(1, 100, 100, 0));
  EXPECT_EQ(exposed.span, (Interval{ns(0), ns(320)}));
  EXPECT_EQ(exposed.compute, ns(210));
  EXPECT_EQ(exposed.idle, ns(10));
}

TEST(GoldenTiming, LateRanks) {
  const Stragglers waits = stragglers(trace_of("late_ranks"));
  ASSERT_EQ(waits.collectives.size(), 1U);
  EXPECT_EQ(waits.collectives[0],
            (CollectiveWait{CommKind::all_reduce, Axis::unknown, 3, 2, 0, ns(260), ns(530), ns(90)}));
  EXPECT_EQ(waits.ranks[0].collectives, late(2, 0, 0, 150));
  EXPECT_EQ(waits.ranks[1].collectives, late(2, 1, 90, 80));
  EXPECT_EQ(waits.ranks[2].collectives, late(2, 1, 170, 30));
  EXPECT_EQ(waits.ranks[2].collectives.mean_caused(), ns(170));
  ASSERT_EQ(waits.worst.size(), 2U);
  EXPECT_EQ(waits.worst[0].waited, ns(170));
  EXPECT_EQ(waits.worst[1].index, 1);
  const SummaryRow row = row_of("late_ranks", CommKind::all_reduce);
  EXPECT_DOUBLE_EQ(algorithm_gbs(row), 6000.0 / 530);
  EXPECT_DOUBLE_EQ(bus_gbs(row), 8000.0 / 530);
}

TEST(GoldenTiming, ARootThatEndsBeforeTheOthersArrive) {
  const Stragglers waits = stragglers(trace_of("early_root"));
  EXPECT_EQ(waits.ranks[0].collectives, late(1, 0, 0, 10));
  EXPECT_EQ(waits.ranks[1].collectives, late(1, 1, 10, 0));
  const SummaryRow row = row_of("early_root", CommKind::broadcast);
  EXPECT_DOUBLE_EQ(algorithm_gbs(row), 20);
  EXPECT_DOUBLE_EQ(bus_gbs(row), 20);
}

TEST(GoldenTiming, MessagesAndWhichSideWaited) {
  const Stragglers waits = stragglers(trace_of("messages"));
  ASSERT_EQ(waits.pairs.size(), 1U);
  EXPECT_EQ(waits.pairs[0], (PairWait{Rank{0}, Rank{1}, Axis::unknown, 2, 1, 1, 1, ns(20), ns(40)}));
  EXPECT_EQ(waits.ranks[0].messages, late(2, 1, 40, 20));
  EXPECT_EQ(waits.ranks[1].messages, late(2, 1, 20, 40));
  EXPECT_EQ(waits.ranks[0].collectives, late(0, 0, 0, 0));
  EXPECT_DOUBLE_EQ(algorithm_gbs(row_of("messages", CommKind::send)), 20);
}

TEST(GoldenTiming, CallsThatLackTheirPartners) {
  const Stragglers waits = stragglers(trace_of("missing_calls"));
  EXPECT_EQ(waits.instances, 1);
  EXPECT_EQ(waits.incomplete, 2);
  EXPECT_EQ(waits.ranks[0].collectives, late(1, 0, 0, 5));
}

TEST(GoldenTiming, RootsAreMatchedApart) {
  const Stragglers waits = stragglers(trace_of("two_roots"));
  EXPECT_EQ(waits.instances, 2);
  EXPECT_EQ(waits.incomplete, 0);
  EXPECT_EQ(waits.ranks[0].collectives, late(2, 1, 50, 50));
  EXPECT_EQ(waits.ranks[1].collectives, late(2, 1, 50, 50));
}

TEST(GoldenTiming, PipelineLosesTheIdealPartOfItsTime) {
  const Bubbles bubbles = pipeline_bubbles(trace_of("pipeline"));
  ASSERT_EQ(bubbles.rows.size(), 4U);
  const std::vector<std::pair<std::int64_t, std::int64_t>> span_and_idle = {
      {90, 30}, {90, 30}, {70, 10}, {90, 30}};
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(bubbles.rows[row].span, ns(span_and_idle[row].first)) << row;
    EXPECT_EQ(bubbles.rows[row].idle, ns(span_and_idle[row].second)) << row;
    EXPECT_EQ(bubbles.rows[row].in_pipeline_calls, ns(span_and_idle[row].second)) << row;
  }
  ASSERT_TRUE(bubbles.shape.has_value());
  EXPECT_EQ(*bubbles.shape, (PipelineShape{2, 2, 1}));
  EXPECT_DOUBLE_EQ(bubbles.shape->ideal_bubble(), 1.0 / 3);
  const Stragglers waits = stragglers(trace_of("pipeline"));
  ASSERT_EQ(waits.pairs.size(), 2U);
  EXPECT_EQ(waits.pairs[0], (PairWait{Rank{0}, Rank{1}, Axis::unknown, 4, 0, 0, 2, ns(0), ns(40)}));
  EXPECT_EQ(waits.pairs[1], (PairWait{Rank{1}, Rank{0}, Axis::unknown, 4, 0, 0, 2, ns(0), ns(60)}));
}

TEST(GoldenTiming, PipelineWithoutComputeShowsTheTimeInItsCalls) {
  const Bubbles bubbles = pipeline_bubbles(trace_of("pipeline_without_compute"));
  ASSERT_EQ(bubbles.rows.size(), 4U);
  EXPECT_EQ(bubbles.rows[0].idle, std::nullopt);
  EXPECT_EQ(bubbles.rows[0].span, ns(60));
  EXPECT_EQ(bubbles.rows[0].bubble(), ns(30));
  EXPECT_EQ(bubbles.rows[2].bubble(), ns(10));
  EXPECT_EQ(bubbles.rows[3].bubble(), ns(30));
}

TEST(GoldenTiming, InterleavedPipelineIsRecognised) {
  const Bubbles bubbles = pipeline_bubbles(trace_of("interleaved"));
  ASSERT_TRUE(bubbles.shape.has_value());
  EXPECT_EQ(*bubbles.shape, (PipelineShape{2, 2, 2}));
  EXPECT_DOUBLE_EQ(bubbles.shape->ideal_bubble(), 0.2);
}

TEST(GoldenTiming, CallsWithoutTimesHaveNone) {
  const Trace trace = trace_of("no_times");
  EXPECT_EQ(trace.streams.size(), 2U);
  EXPECT_TRUE(communication_overlap(trace).empty());
  EXPECT_TRUE(pipeline_bubbles(trace).rows.empty());
  const Stragglers waits = stragglers(trace);
  EXPECT_EQ(waits.without_times, 2);
  EXPECT_EQ(waits.instances, 0);
  EXPECT_TRUE(waits.ranks.empty());
  EXPECT_EQ(row_of("no_times", CommKind::all_reduce).algorithm_bandwidth, std::nullopt);
}

}  // namespace
}  // namespace commlens
