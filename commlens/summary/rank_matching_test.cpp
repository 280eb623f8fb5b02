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
// 1 both ranks start at 0, in communicator 2 at 100: nobody waits. Matched by ranks alone, the first calls
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

}  // namespace
}  // namespace commlens
