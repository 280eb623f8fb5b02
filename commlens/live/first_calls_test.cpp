// First calls on communicators, which make connections.
#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

using test_support::FollowedRanks;

class FirstCalls : public test_support::FollowerTest {};

TEST_F(FirstCalls, OfEachRankOnACommunicatorAreCounted) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  const auto on = [&](std::uint64_t communicator) {
    for (const std::int64_t rank : {0, 1}) {
      job.rank(rank).finish(job.enter(rank, 8, true, CommunicatorId{communicator}));
    }
  };
  on(1);
  on(1);
  on(2);
  on(1);
  const JobView& view = poll(follower);
  ASSERT_EQ(view.ops.size(), 1U);
  EXPECT_EQ(view.ops[0].sums.calls, 8);
  EXPECT_EQ(view.ops[0].first_calls, 4);
  EXPECT_GT(view.ops[0].first_time.count(), 0);
  EXPECT_LT(view.ops[0].first_time, view.ops[0].sums.time);
}

}  // namespace
}  // namespace commlens
