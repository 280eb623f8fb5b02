#include "commlens/summary/overlap.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// One rank; every call takes 10 ns and starts with the last one's end.
class Calls {
 public:
  Calls() { trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}}); }
  void add(Iteration iteration, CommKind kind, const std::vector<Rank>& group,
           CommunicatorId communicator = k_no_communicator) {
    CommOp op;
    op.kind = kind;
    op.group = trace.groups.intern(group, Axis::unknown, communicator);
    RankStream& stream = trace.streams[0];
    const nanoseconds start(10 * std::ssize(stream.events));
    stream.events.push_back({trace.intern(op), iteration});
    stream.times.push_back({start, start, start + nanoseconds(10)});
  }
  Trace trace;
};

TEST(CommunicationOverlap, RowsOfAnIterationAreInOrderHoweverTheirCallsCame) {
  const std::vector<Rank> a = {Rank{0}, Rank{1}};
  const std::vector<Rank> b = {Rank{0}, Rank{2}};
  Calls calls;
  calls.add(0, CommKind::all_reduce, a);
  calls.add(1, CommKind::broadcast, b);
  calls.add(1, CommKind::all_gather, b);
  calls.add(1, CommKind::all_reduce, a);
  calls.add(1, CommKind::broadcast, a);
  const std::vector<IterationOverlap> rows = communication_overlap(calls.trace);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[0].ops.size(), 1U);
  ASSERT_EQ(rows[0].streams.size(), 1U);
  ASSERT_EQ(rows[1].ops.size(), 3U);
  EXPECT_EQ(rows[1].ops[0].kind, CommKind::all_reduce);
  EXPECT_EQ(rows[1].ops[0].time.sum, nanoseconds(10));
  EXPECT_EQ(rows[1].ops[1].kind, CommKind::all_gather);
  EXPECT_EQ(rows[1].ops[2].kind, CommKind::broadcast);
  EXPECT_EQ(rows[1].ops[2].time.calls, 2);
  ASSERT_EQ(rows[1].streams.size(), 2U);
  EXPECT_EQ(rows[1].streams[0].members, a);
  EXPECT_EQ(rows[1].streams[0].time.sum, nanoseconds(20));
  EXPECT_EQ(rows[1].streams[1].members, b);
  EXPECT_EQ(rows[1].streams[1].time.sum, nanoseconds(20));
}

TEST(CommunicationOverlap, CommunicatorsOfTheSameRanksAreStreamsOfTheirOwn) {
  const std::vector<Rank> both = {Rank{0}, Rank{1}};
  Calls calls;
  calls.add(0, CommKind::all_reduce, both, CommunicatorId{1});
  calls.add(0, CommKind::all_reduce, both, CommunicatorId{2});
  calls.add(0, CommKind::broadcast, both, CommunicatorId{1});
  const std::vector<IterationOverlap> rows = communication_overlap(calls.trace);
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_EQ(rows[0].streams.size(), 2U);
  EXPECT_EQ(rows[0].streams[0].communicator, CommunicatorId{1});
  EXPECT_EQ(rows[0].streams[0].time.calls, 2);
  EXPECT_EQ(rows[0].streams[1].communicator, CommunicatorId{2});
  EXPECT_EQ(rows[0].streams[1].time.calls, 1);
}

}  // namespace
}  // namespace commlens
