// Iterations that a follower keeps, where calls of them are not known.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

class KeptIterations : public test_support::FollowerTest {
 protected:
  /// Both ranks make two calls.
  void make(Iteration iteration) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      job_.rank(rank).set_iteration(iteration);
      job_.call(rank);
      job_.call(rank);
    }
  }
  /// Of all ranks; -1: not known.
  std::ptrdiff_t calls_of(Iteration iteration) const {
    const std::optional<Trace> kept = follower_.iteration(iteration);
    return kept ? std::ssize(kept->streams[0].events) + std::ssize(kept->streams[1].events) : -1;
  }

  test_support::FollowedRanks job_{path_};
  FolderFollower follower_{path_, {.hang_after = {}, .keeps_iterations = true, .keeps_times = true}};
};

TEST_F(KeptIterations, AreUnknownWhereTheRecorderDroppedCalls) {
  make(1);
  make(2);
  poll(follower_);
  EXPECT_EQ(calls_of(1), 4);
  EXPECT_EQ(calls_of(2), 4);
  make(3);
  test_support::drop_calls(path_, 1, 5);  // after iteration 2 had begun; when, is not known
  make(4);
  poll(follower_);
  EXPECT_EQ(calls_of(1), 4);
  for (const Iteration unknown : {2, 3, 4}) {
    EXPECT_EQ(calls_of(unknown), -1) << unknown;
  }
  EXPECT_EQ(follower_.view().lost.at(std::string(k_skipped_recorder_late)), 5);
  EXPECT_EQ(follower_.view().ranks[0].lost_records, 0);
  EXPECT_EQ(follower_.view().ranks[1].lost_records, 5);
  make(5);  // perhaps the last of these calls were of this one
  make(6);
  poll(follower_);
  EXPECT_EQ(calls_of(5), -1);
  EXPECT_EQ(calls_of(6), 4);
}

TEST_F(KeptIterations, OfAProgramWithoutMarksBeginAgainAfterDroppedCalls) {
  job_.call(0);
  job_.call(1);
  poll(follower_);
  EXPECT_EQ(follower_.latest_calls().streams[0].events.size(), 1U);
  test_support::drop_calls(path_, 0, 1);
  poll(follower_);
  EXPECT_TRUE(follower_.latest_calls().streams[0].events.empty());
  EXPECT_EQ(follower_.latest_calls().streams[1].events.size(), 1U);
  job_.call(0);
  poll(follower_);
  EXPECT_EQ(follower_.latest_calls().streams[0].events.size(), 1U);
}

TEST_F(KeptIterations, HaveNoTimesWhereACallHasNone) {
  make(1);
  test_support::lose_time(path_, 1, 0);
  make(2);
  poll(follower_);
  const std::optional<Trace> first = follower_.iteration(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->streams[0].times.size(), 2U);
  EXPECT_EQ(first->streams[1].events.size(), 2U);
  EXPECT_TRUE(first->streams[1].times.empty());
  EXPECT_EQ(follower_.iteration(2)->streams[1].times.size(), 2U);
  EXPECT_EQ(follower_.view().ranks[1].sums.calls, 4);
}

}  // namespace
}  // namespace commlens
