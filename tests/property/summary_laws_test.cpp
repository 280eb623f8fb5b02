// Laws that every summary keeps, on random traces with times.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/comm/volume.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

Trace random_trace() { return test_support::RandomTrace(*rc::gen::arbitrary<std::uint64_t>()).make(); }

auto op_of(const SummaryRow& row) { return std::tuple(row.kind, row.name, row.axis, row.group_size); }

std::int64_t time_of(const SummaryRow& row) { return row.time ? row.time->total.count() : 0; }

/// Calls, message, and time of all rows of an op; smallest and largest message and time.
struct Sums {
  std::int64_t calls = 0;
  Bytes message;
  std::int64_t timed = 0;
  std::int64_t time = 0;
  Bytes smallest{INT64_MAX};
  Bytes largest;
  friend bool operator==(const Sums&, const Sums&) = default;
};

std::map<decltype(op_of(SummaryRow{})), Sums> sums_of(const std::vector<SummaryRow>& rows) {
  std::map<decltype(op_of(SummaryRow{})), Sums> result;
  for (const SummaryRow& row : rows) {
    Sums& sums = result[op_of(row)];
    sums.calls += row.calls;
    sums.message += row.message;
    sums.timed += row.time ? row.time->calls : 0;
    sums.time += time_of(row);
    sums.smallest = std::min(sums.smallest, row.smallest);
    sums.largest = std::max(sums.largest, row.largest);
  }
  return result;
}

TEST(SummaryLaws, RowsByPhaseAndIterationAddUpToTheRowWithout) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_trace();
    const auto whole = sums_of(summary_rows(trace));
    RC_ASSERT(sums_of(summary_rows(trace, {.by_phase = true})) == whole);
    RC_ASSERT(sums_of(summary_rows(trace, {.by_iteration = true})) == whole);
    RC_ASSERT(sums_of(summary_rows(trace, {.by_phase = true, .by_iteration = true})) == whole);
  }));
}

TEST(SummaryLaws, SharesAddUpToOne) {
  ASSERT_TRUE(rc::check([] {
    const Summary summary = summarise(random_trace());
    double bytes = 0;
    double time = 0;
    for (const SummaryRow& row : summary.rows) {
      bytes += summary.message.value == 0
                   ? 0
                   : static_cast<double>(row.message.value) / static_cast<double>(summary.message.value);
      time += static_cast<double>(time_of(row));
    }
    RC_ASSERT(summary.message.value == 0 || std::abs(bytes - 1) < 1e-12);
    RC_ASSERT(static_cast<double>(summary.time ? summary.time->total.count() : 0) == time);
  }));
}

TEST(SummaryLaws, IterationsOneByOneAddUpToTheTrace) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_trace();
    const Summary whole = summarise(trace);
    std::int64_t calls = 0;
    Bytes message;
    for (const Iteration iteration : whole.iterations.list()) {
      const Summary one = summarise(trace, {.iterations = std::pair(iteration, iteration)});
      calls += one.calls;
      message += one.message;
    }
    std::int64_t unknown = 0;
    for (const RankStream& stream : trace.streams) {
      unknown += stream.ranks.count() *
                 std::count_if(stream.events.begin(), stream.events.end(),
                               [](const CommEvent& event) { return event.iteration == k_unknown_iteration; });
    }
    RC_ASSERT(calls + unknown == whole.calls);
    RC_ASSERT(message <= whole.message);
  }));
}

TEST(SummaryLaws, RanksOneByOneAddUpToTheTrace) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_trace();
    const Summary whole = summarise(trace);
    std::int64_t calls = 0;
    Bytes message;
    std::int64_t time = 0;
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      const Summary one = summarise(trace, {.rank = rank});
      calls += one.calls;
      message += one.message;
      time += one.time ? one.time->total.count() : 0;
    }
    RC_ASSERT(calls == whole.calls);
    RC_ASSERT(message == whole.message);
    RC_ASSERT(time == (whole.time ? whole.time->total.count() : 0));
  }));
}

/// The two ways to the same sums: breakdown rounds wire bytes in each of its rows, the summary once.
TEST(SummaryLaws, AgreeWithTheBreakdown) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_trace();
    const std::vector<BreakdownRow> rows = breakdown(trace, {.by_rule = false});
    const Summary summary = summarise(trace);
    std::int64_t calls = 0;
    Bytes message;
    std::int64_t rounded = 0;  // places where less than a byte was lost
    for (const BreakdownRow& row : rows) {
      calls += row.calls * row.ranks.count();
      message += row.total_message * row.ranks.count();
      rounded += row.ranks.count();
    }
    RC_ASSERT(summary.calls == calls);
    RC_ASSERT(summary.message == message);
    RC_ASSERT(summary.wire >= aggregate_wire(rows) - Bytes{rounded});
    RC_ASSERT(summary.wire <= aggregate_wire(rows) + Bytes{rounded});
  }));
}

TEST(SummaryLaws, QuantilesAreInOrder) {
  ASSERT_TRUE(rc::check([] {
    for (const SummaryRow& row : summary_rows(random_trace())) {
      if (row.time) {
        const TimeStats& time = *row.time;
        const nanoseconds shortest = time.shortest.value();
        const nanoseconds longest = time.longest.value();
        const nanoseconds p50 = time.p50.value();
        const nanoseconds p95 = time.p95.value();
        RC_ASSERT(shortest <= time.p50_low && time.p50_low <= p50);
        RC_ASSERT(p50 <= time.p50_high && time.p50_high <= longest);
        RC_ASSERT(p50 <= p95 && p95 <= longest);
        RC_ASSERT(shortest * time.calls <= time.total && time.total <= longest * time.calls);
      }
    }
  }));
}

/// Nearest ranks in a sorted list, the plain way.
TEST(SummaryLaws, QuantilesAreNearestRanks) {
  ASSERT_TRUE(rc::check([] {
    const auto durations = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 1'000'000)));
    DurationStats stats;
    for (const std::int64_t duration : durations) {
      stats.add(nanoseconds(duration));
    }
    std::vector<std::int64_t> sorted = durations;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t n = sorted.size();
    RC_ASSERT(stats.stats()->p50->count() == sorted[(n + 1) / 2 - 1]);
    RC_ASSERT(stats.stats()->p95->count() == sorted[(95 * n + 99) / 100 - 1]);
  }));
}

TEST(SummaryLaws, AHistogramIsWithinOnePercentOfTheExactQuantiles) {
  ASSERT_TRUE(rc::check([] {
    const auto durations = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(
        rc::gen::inRange<std::int64_t>(0, *rc::gen::element<std::int64_t>(300, 50'000, INT64_MAX / 1000))));
    DurationStats exact;
    for (const std::int64_t duration : durations) {
      exact.add(nanoseconds(duration));
    }
    DurationStats histogram = exact;
    histogram.forget_durations();
    const TimeStats a = exact.stats().value();
    const TimeStats b = histogram.stats().value();
    RC_ASSERT(a.exact && !b.exact);
    const auto quantiles = [](const TimeStats& time) {
      return std::array{*time.p50, time.p50_low, time.p50_high, *time.p95};
    };
    for (std::size_t at = 0; at < quantiles(a).size(); ++at) {
      const auto expected = static_cast<double>(quantiles(a)[at].count());
      RC_ASSERT(std::abs(static_cast<double>(quantiles(b)[at].count()) - expected) <=
                k_quantile_error * expected);
    }
    RC_ASSERT(a.total == b.total && a.shortest.value() == b.shortest.value() &&
              a.longest.value() == b.longest.value());
  }));
}

/// Bins hold every call once, and the small ones are a part of them.
TEST(SummaryLaws, SizesAddUpToTheCallsThatAreNoBarriers) {
  ASSERT_TRUE(rc::check([] {
    const Summary summary = summarise(random_trace());
    std::int64_t calls = 0;
    Bytes message;
    std::int64_t time = 0;
    for (const SummaryRow& row : summary.rows) {
      calls += row.kind == CommKind::barrier ? 0 : row.calls;
      message += row.message;
      time += row.kind == CommKind::barrier ? 0 : time_of(row);
    }
    std::int64_t binned = 0;
    for (const SizeBin& bin : summary.sizes.bins) {
      binned += bin.calls;
    }
    RC_ASSERT(binned == calls);
    RC_ASSERT(summary.sizes.calls == calls);
    RC_ASSERT(summary.sizes.message == message);
    RC_ASSERT(summary.sizes.time.count() == time);
    RC_ASSERT(summary.sizes.small_calls <= calls && summary.sizes.small_time <= summary.sizes.time);
  }));
}

}  // namespace
}  // namespace commlens
