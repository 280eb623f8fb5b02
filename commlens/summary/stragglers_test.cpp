#include "commlens/summary/stragglers.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Two ranks in one all_reduce each second; the first call is issued at 0.5 s, the last ends at 10.5 s.
Trace ten_seconds() {
  Trace trace;
  const GroupId both = trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp);
  const OpId op = trace.intern({.kind = CommKind::all_reduce, .group = both});
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    RankStream stream{.ranks = {rank, rank}};
    for (Iteration iteration = 0; iteration < 10; ++iteration) {
      const nanoseconds started = std::chrono::milliseconds(500 + 1000 * std::int64_t{iteration});
      stream.events.push_back({op, iteration});
      stream.times.push_back({started, started, started + std::chrono::milliseconds(1000)});
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

// A clock that is off by 30 in 10^9 is off by 300 ns after 10 s; of two clocks one may be fast and the other
// slow by that.
TEST(Stragglers, BoundsTheClocksOfTwoRanksByTwiceTheErrorOfOne) {
  Trace trace = ten_seconds();
  trace.provenance.recorder = RecorderCost{.clock = "tsc", .clock_error_ppb = 30};
  EXPECT_EQ(stragglers(trace).clock_error, nanoseconds(600));
  trace.provenance.recorder->clock_error_ppb = 0;
  EXPECT_EQ(stragglers(trace).clock_error, nanoseconds(0));
}

TEST(Stragglers, ClaimNothingAboutClocksThatTheTraceDoesNotDescribe) {
  EXPECT_EQ(stragglers(ten_seconds()).clock_error, std::nullopt);
}

// 2 * 9.2e18 ppb over 10 s are more than a clock of 64 bits holds: the bound is capped at 2e18 ns.
TEST(Stragglers, CapAClockErrorBeyondAnyClock) {
  Trace trace = ten_seconds();
  trace.provenance.recorder =
      RecorderCost{.clock = "tsc", .clock_error_ppb = std::int64_t{9'200'000'000'000'000'000}};
  const std::optional<nanoseconds> error = stragglers(trace).clock_error;
  ASSERT_TRUE(error.has_value());
  EXPECT_GT(*error, nanoseconds(0));
  EXPECT_LE(*error, nanoseconds(2'000'000'000'000'000'000));
}

// The first call that is left of rank 1 is the second one of rank 0: the k-th calls do not belong together.
TEST(Stragglers, MatchNoCallsWithoutIterationsOfRanksWhoseFirstCallsWereOverwritten) {
  Trace trace = ten_seconds();
  for (RankStream& stream : trace.streams) {
    for (CommEvent& event : stream.events) {
      event.iteration = k_unknown_iteration;
    }
  }
  trace.streams[1].events.erase(trace.streams[1].events.begin());
  trace.streams[1].times.erase(trace.streams[1].times.begin());
  EXPECT_EQ(stragglers(trace).ranks.at(0).collectives.instances, 9);
  trace.provenance.skip("call overwritten, ring full");
  EXPECT_EQ(stragglers(trace).ranks.at(0).collectives.instances, 0);
}

TEST(Stragglers, MatchTheIterationsThatAreLeftOfRanksWhoseFirstCallsWereOverwritten) {
  Trace trace = ten_seconds();
  trace.streams[1].events.erase(trace.streams[1].events.begin());
  trace.streams[1].times.erase(trace.streams[1].times.begin());
  trace.provenance.skip("call overwritten, ring full");
  EXPECT_EQ(stragglers(trace).ranks.at(0).collectives.instances, 9);
  EXPECT_EQ(stragglers(trace).ranks.at(0).collectives.waited, std::chrono::nanoseconds(0));
}

}  // namespace
}  // namespace commlens
