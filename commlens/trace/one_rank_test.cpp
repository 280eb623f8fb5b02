#include "commlens/trace/one_rank.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(KeepRank, LeavesOneRankOfAClassInAJobOfTheSameSize) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::barrier;
  op.group = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}});
  const OpId id = trace.intern(op);
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{id, 0}}, {}, {}});
  trace.streams.push_back({{Rank{1}, Rank{2}}, {{id, 0}, {id, 1}}, {}, {}});
  ASSERT_TRUE(keep_rank(trace, Rank{2}));
  ASSERT_EQ(trace.streams.size(), 1U);
  EXPECT_EQ(trace.streams[0].ranks.first, Rank{2});
  EXPECT_EQ(trace.streams[0].ranks.count(), 1);
  EXPECT_EQ(trace.streams[0].events.size(), 2U);
  EXPECT_EQ(trace.job_ranks(), 3);
  EXPECT_FALSE(keep_rank(trace, Rank{0}));
  EXPECT_EQ(trace.streams.size(), 1U);
}

}  // namespace
}  // namespace commlens
