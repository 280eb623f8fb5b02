#include "commlens/app/reproduce/pair_messages.hpp"

#include <gtest/gtest.h>

namespace commlens::study {
namespace {

using std::chrono::nanoseconds;

/// Calls of one rank, as pairs of issue and end.
RankStream stream_of(Rank rank, OpId op, const std::vector<std::pair<int, int>>& calls) {
  RankStream stream{.ranks = {rank, rank}};
  for (const auto& [issued, finished] : calls) {
    stream.events.push_back({op, 0});
    stream.times.push_back({nanoseconds(issued), nanoseconds(issued), nanoseconds(finished)});
  }
  return stream;
}

/// Rank 2 sends four messages of 64 fp32 values to rank 5, which waits for the first.
Trace four_messages() {
  Trace trace;
  const GroupId pair = trace.groups.intern({Rank{2}, Rank{5}}, Axis::pp);
  const OpId send =
      trace.intern({.kind = CommKind::send, .dtype = DType::fp32, .group = pair, .input = {64}});
  const OpId receive =
      trace.intern({.kind = CommKind::recv, .dtype = DType::fp32, .group = pair, .output = {64}});
  trace.streams.push_back(stream_of(Rank{2}, send, {{100, 110}, {200, 205}, {300, 307}, {400, 406}}));
  trace.streams.push_back(stream_of(Rank{5}, receive, {{0, 130}, {210, 220}, {290, 320}, {400, 415}}));
  return trace;
}

TEST(PairCalls, TellFirstFromLater) {
  const std::vector<PairCalls> calls = pair_calls(four_messages());
  ASSERT_EQ(calls.size(), 2U);
  const PairCalls& receives = calls[0];
  EXPECT_EQ(receives.op, CommKind::recv);
  EXPECT_EQ(receives.source, Rank{2});
  EXPECT_EQ(receives.destination, Rank{5});
  EXPECT_EQ(receives.message, Bytes{256});
  EXPECT_EQ(receives.first.duration, nanoseconds(130));
  EXPECT_EQ(receives.first.moving, nanoseconds(30));  // its send was issued at 100
  EXPECT_EQ(receives.later_calls, 3);
  EXPECT_EQ(receives.later.duration, nanoseconds(15));  // of 10, 30, 15
  EXPECT_EQ(receives.later.moving, nanoseconds(15));    // of 10, 20, 15
  const PairCalls& sends = calls[1];
  EXPECT_EQ(sends.op, CommKind::send);
  EXPECT_EQ(sends.first.duration, nanoseconds(10));
  EXPECT_EQ(sends.later.duration, nanoseconds(6));  // of 5, 7, 6
  EXPECT_EQ(sends.first.moving, std::nullopt);
}

TEST(PairCalls, LeaveOutMessagesThatNobodyReceives) {
  Trace trace = four_messages();
  trace.streams.pop_back();
  EXPECT_TRUE(pair_calls(trace).empty());
}

TEST(PairCalls, LeaveOutMessagesBetweenHiddenRanks) {
  Trace trace;
  const GroupId hidden = trace.groups.intern_hidden(2, "unknown", Axis::pp);
  const OpId send =
      trace.intern({.kind = CommKind::send, .dtype = DType::fp32, .group = hidden, .input = {64}});
  const OpId receive =
      trace.intern({.kind = CommKind::recv, .dtype = DType::fp32, .group = hidden, .output = {64}});
  trace.streams.push_back(stream_of(Rank{0}, send, {{100, 110}}));
  trace.streams.push_back(stream_of(Rank{1}, receive, {{0, 130}}));
  EXPECT_TRUE(pair_calls(trace).empty());
}

}  // namespace
}  // namespace commlens::study
