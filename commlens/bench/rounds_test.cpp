#include "commlens/bench/rounds.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/bench/clock_sync.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens::bench {
namespace {

void spin(std::chrono::nanoseconds time) {
  const std::int64_t until = monotonic_ns() + time.count();
  while (monotonic_ns() < until) {
  }
}

/// What the first of `ranks` threads gets from rows that `rows_of` makes for each rank.
RoundResult timed(std::int64_t ranks, const std::function<std::vector<TimedRow>(Communicator&)>& rows_of,
                  const RoundOptions& options) {
  RoundResult result;
  run_thread_ranks(ranks, [&](const std::unique_ptr<Communicator>& world) {
    const RoundResult own = timed_rounds(*world, rows_of(*world), options);
    if (world->rank().value == 0) {
      result = own;
    }
  });
  return result;
}

RoundOptions rounds_of(std::int64_t rounds) {
  return {.least_rounds = rounds, .most_rounds = rounds, .time = std::chrono::seconds(20), .settled = 0};
}

TEST(Rounds, MakeEachRowOncePerRoundAndItsFirstCallApart) {
  std::vector<std::int64_t> calls(2);
  const RoundResult result = timed(
      1,
      [&](Communicator&) {
        return std::vector<TimedRow>{{"a", [&] { ++calls[0]; }}, {"b", [&] { ++calls[1]; }}};
      },
      rounds_of(12));
  EXPECT_EQ(calls, (std::vector<std::int64_t>{13, 13}));
  EXPECT_EQ(result.rounds, 13);
  EXPECT_EQ(result.timed_rows, 2);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].span_s.size(), 12U);
  EXPECT_EQ(result.rows[0].round.front(), 1);
  EXPECT_EQ(result.rows[1].round.back(), 12);
  EXPECT_GT(result.rows[1].first_s, 0);
}

std::string order_of(std::uint64_t seed) {
  std::string order;
  RoundOptions options = rounds_of(20);
  options.seed = seed;
  timed(
      1,
      [&](Communicator&) {
        return std::vector<TimedRow>{
            {"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}, {"c", [&] { order += 'c'; }}};
      },
      options);
  return order;
}

TEST(Rounds, AreShuffledAnewByTheSeed) {
  const std::string order = order_of(7);
  EXPECT_EQ(order, order_of(7));
  EXPECT_NE(order, order_of(8));
  std::vector<std::string> rounds;
  for (std::size_t at = 0; at < order.size(); at += 3) {
    std::string round = order.substr(at, 3);
    rounds.push_back(round);
    std::sort(round.begin(), round.end());
    EXPECT_EQ(round, "abc");
  }
  std::sort(rounds.begin(), rounds.end());
  // Of 20 shuffled rounds, each of the 6 orders is missing with probability 0.026.
  EXPECT_GE(std::unique(rounds.begin(), rounds.end()) - rounds.begin(), 4);
}

// Ranks 0 and 1 of 3 take part; rank 1 enters 2 ms late, and its call takes 3 ms.
TEST(Rounds, SpanTheFirstEntryToTheLastExit) {
  using std::chrono::milliseconds;
  const RoundResult result = timed(
      3,
      [](Communicator& world) {
        const std::int64_t rank = world.rank().value;
        TimedRow row{"late", {}};
        if (rank == 0) {
          row.call = [] { spin(milliseconds(1)); };
        } else if (rank == 1) {
          row.call = [] { spin(milliseconds(3)); };
        }
        return std::vector<TimedRow>{row};
      },
      rounds_of(5));
  const RowSamples& samples = result.rows.at(0);
  for (std::size_t at = 0; at < 5; ++at) {
    EXPECT_GE(samples.local_s.at(at), 0.003);
    EXPECT_GE(samples.span_s.at(at), samples.local_s.at(at));
    EXPECT_GE(samples.skew_s.at(at), 0);
    EXPECT_GE(samples.span_s.at(at), samples.skew_s.at(at));
  }
}

TEST(Rounds, ReadOneClockWhereTheRanksHaveTheirOwn) {
  const RoundResult result = [] {
    RoundResult first;
    run_thread_ranks(3, [&](const std::unique_ptr<Communicator>& world) {
      const std::int64_t rank = world->rank().value;
      RoundOptions options = rounds_of(10);
      options.clock = [rank] { return monotonic_ns() - rank * 3'600'000'000'000; };
      const std::vector<TimedRow> rows = {{"barrier", [&] { world->barrier(); }}};
      const RoundResult own = timed_rounds(*world, rows, options);
      if (rank == 0) {
        first = own;
      }
    });
    return first;
  }();
  EXPECT_GT(result.clock_error_s, 0);
  for (const double span : result.rows.at(0).span_s) {
    EXPECT_LT(span, 60);  // the clocks are an hour apart
    EXPECT_GT(span, -result.clock_error_s);
  }
}

TEST(Rounds, EndWhenTheMedianIsSettled) {
  RoundOptions options;
  options.time = std::chrono::seconds(60);
  options.settled = 1e9;
  const RoundResult result =
      timed(2, [](Communicator&) { return std::vector<TimedRow>{{"nothing", [] {}}}; }, options);
  EXPECT_GE(result.rows.at(0).span_s.size(), 30U);
  EXPECT_LT(result.rows.at(0).span_s.size(), 1000U);
  EXPECT_FALSE(result.was_stopped);
}

TEST(Rounds, EndWhenTheTimeOfARowIsOver) {
  RoundOptions options;
  options.time = std::chrono::milliseconds(1);
  options.settled = 0;
  const RoundResult result = timed(
      2,
      [](Communicator&) {
        return std::vector<TimedRow>{{"long", [] { spin(std::chrono::milliseconds(2)); }}, {"none", {}}};
      },
      options);
  EXPECT_GE(result.rows.at(0).span_s.size(), 1U);
  EXPECT_LT(result.rows.at(0).span_s.size(), 100U);
  EXPECT_TRUE(result.rows.at(1).span_s.empty());
}

TEST(Rounds, StopOnRequestWithWhatThereIs) {
  RoundOptions options = rounds_of(100'000);
  std::atomic<std::int64_t> reports = 0;
  options.has_more = [&](const RoundResult& result) { reports += !result.rows.at(0).span_s.empty(); };
  options.stop_requested = [&] { return reports >= 2; };
  const RoundResult result = timed(
      2, [](Communicator& world) { return std::vector<TimedRow>{{"b", [&] { world.barrier(); }}}; }, options);
  EXPECT_TRUE(result.was_stopped);
  EXPECT_GE(result.rows.at(0).span_s.size(), 1U);
  EXPECT_LT(result.rounds, 100'000);
}

// Of three ranks, the last one alone is asked, after the first round.
TEST(Rounds, StopWhereAnyRankIsAsked) {
  RoundResult first;
  run_thread_ranks(3, [&](const std::unique_ptr<Communicator>& world) {
    RoundOptions options = rounds_of(100'000);
    bool has_begun = false;
    const bool is_asked = world->rank().value == 2;
    options.after_first = [&] { return has_begun = true; };
    options.stop_requested = [&] { return is_asked && has_begun; };
    const RoundResult own = timed_rounds(*world, {{"barrier", [&] { world->barrier(); }}}, options);
    EXPECT_TRUE(own.was_stopped) << "rank " << world->rank().value;
    if (world->rank().value == 0) {
      first = own;
    }
  });
  EXPECT_GE(first.rows.at(0).span_s.size(), 1U);
  EXPECT_LT(first.rounds, 100'000);
}

// Of three rows, asked to stop after the first call of the second one.
TEST(Rounds, StopBetweenFirstCalls) {
  RoundOptions options = rounds_of(100);
  std::atomic<std::int64_t> made = 0;
  bool has_second_part = false;
  options.has_first = [&](std::int64_t rows) { made = rows; };
  options.stop_requested = [&] { return made == 2; };
  options.after_first = [&] {
    has_second_part = true;
    return true;
  };
  std::array<std::atomic<int>, 3> calls = {};
  const RoundResult result = timed(
      2,
      [&](Communicator&) {
        std::vector<TimedRow> rows;
        for (std::atomic<int>& count : calls) {
          rows.push_back({"row", [&count] { ++count; }});
        }
        return rows;
      },
      options);
  EXPECT_TRUE(result.was_stopped);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(calls[0], 2);  // of two ranks
  EXPECT_EQ(calls[1], 2);
  EXPECT_EQ(calls[2], 0);
  EXPECT_FALSE(has_second_part);
  EXPECT_TRUE(result.rows.at(0).span_s.empty());
}

TEST(Rounds, EndWhereTheirSecondPartIsStopped) {
  RoundOptions options = rounds_of(100);
  options.after_first = [] { return false; };
  const RoundResult result =
      timed(2, [](Communicator&) { return std::vector<TimedRow>{{"nothing", [] {}}}; }, options);
  EXPECT_TRUE(result.was_stopped);
  EXPECT_EQ(result.rounds, 1);
}

}  // namespace
}  // namespace commlens::bench
