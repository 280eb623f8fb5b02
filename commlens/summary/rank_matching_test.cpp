#include "commlens/summary/rank_matching.hpp"

#include <gtest/gtest.h>

#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// A call of 10 ns that starts at `start`.
void add_call(Trace& trace, std::int64_t rank, CommunicatorId communicator, std::int64_t start) {
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::world, communicator);
  op.input = op.output = Elements{8};
  RankStream& stream = trace.streams.at(static_cast<std::size_t>(rank));
  stream.events.push_back({trace.intern(op), 0});
  stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(start + 10)});
}

// Two threads, each with a communicator of its own, take turns in another order on each rank. In communicator
// 1 both ranks start at 0, in communicator 2 at 100: no rank waits. Matched by ranks alone, the first calls
// would be at 0 and 100.
TEST(RankMatching, CommunicatorsOfTheSameRanksAreMatchedApart) {
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  trace.streams.push_back({{Rank{1}, Rank{1}}, {}, {}, {}});
  add_call(trace, 0, CommunicatorId{1}, 0);
  add_call(trace, 0, CommunicatorId{2}, 100);
  add_call(trace, 1, CommunicatorId{2}, 100);
  add_call(trace, 1, CommunicatorId{1}, 0);
  const Stragglers waits = stragglers(trace);
  for (const RankLateness& rank : waits.ranks) {
    EXPECT_EQ(rank.collectives.instances, 2);
    EXPECT_EQ(rank.collectives.waited, nanoseconds(0));
  }
  ASSERT_EQ(waits.slow.groups.size(), 2U);
  EXPECT_EQ(waits.slow.groups[0].communicator, CommunicatorId{1});
  EXPECT_EQ(waits.slow.groups[1].communicator, CommunicatorId{2});
}

// One stream has the same times for a million ranks, which no clock can have measured.
TEST(RankMatching, SkipsStreamsOfSeveralRanks) {
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  trace.streams.push_back({{Rank{1}, Rank{1'000'000}}, {}, {}, {}});
  add_call(trace, 0, k_no_communicator, 0);
  add_call(trace, 1, k_no_communicator, 0);
  add_call(trace, 1, k_no_communicator, 20);
  const Stragglers waits = stragglers(trace);
  ASSERT_EQ(waits.ranks.size(), 1U);
  EXPECT_EQ(waits.ranks[0].rank, Rank{0});
  EXPECT_EQ(waits.of_several_ranks, 2'000'000);
  EXPECT_EQ(waits.without_times, 0);
  EXPECT_EQ(waits.instances, 0);
}

// Rank 0 makes 100 calls before the first of rank 1 is read: calls over the limit are dropped and counted,
// once, independent of later calls.
TEST(RankMatching, LimitsWhatItHolds) {
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  trace.streams.push_back({{Rank{1}, Rank{1}}, {}, {}, {}});
  for (std::int64_t call = 0; call < 100; ++call) {
    add_call(trace, 0, k_no_communicator, 20 * call);
    add_call(trace, 1, k_no_communicator, 20 * call);
  }
  const CallSource source = call_source(trace);
  std::vector<RankCalls> ranks;
  ranks.emplace_back(Rank{0}, 0);
  ranks.emplace_back(Rank{1}, 1);
  RankMatching matching(source, {}, {}, ranks);
  matching.add(ranks[0], source.calls(ranks[0].cursor, 100));
  EXPECT_EQ(ranks[0].held, 101);  // arrivals, and one part of a block
  matching.limit_held(101);
  EXPECT_EQ(ranks[0].held, 101);
  matching.limit_held(100);
  EXPECT_EQ(ranks[0].held, 1);
  matching.add(ranks[1], source.calls(ranks[1].cursor, 100));
  matching.end(ranks[0]);
  matching.end(ranks[1]);
  const Stragglers waits = matching.finish();
  EXPECT_EQ(waits.instances, 0);
  EXPECT_EQ(waits.too_far_apart, 200);
  EXPECT_EQ(waits.slow.blocks, 2);  // 64 calls and 36, by the clocks of each
}

}  // namespace
}  // namespace commlens
