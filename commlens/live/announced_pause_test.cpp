// Pauses that a program announces: no hang.
#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

using std::chrono::seconds;
using test_support::FollowedRanks;

class PausedJob : public test_support::FollowerTest {};

TEST_F(PausedJob, WaitsForTheEndOfAPauseThatWasAnnounced) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20)});
  job.enter(0);
  poll(follower, 0);
  job.rank(1).announce_pause(60);
  EXPECT_TRUE(poll(follower, 10).alerts.empty());
  EXPECT_EQ(follower.view().hang.pause_left, seconds(60));
  EXPECT_TRUE(poll(follower, 69).alerts.empty());
  EXPECT_TRUE(poll(follower, 89).alerts.empty());  // 20 s after 70 are not over
  EXPECT_EQ(poll(follower, 90).alerts.size(), 1U);
  job.rank(1).announce_pause(5);
  EXPECT_TRUE(poll(follower, 91).alerts.empty());
  job.rank(1).announce_pause(-1);  // it is over
  EXPECT_TRUE(poll(follower, 92).alerts.empty());
  EXPECT_TRUE(poll(follower, 111).alerts.empty());
  EXPECT_EQ(poll(follower, 112).alerts.size(), 1U);
  EXPECT_EQ(follower.view().hang.still_for, seconds(102));  // rank 1 came at 10
}

TEST_F(PausedJob, IsSureOfAMismatchInAPause) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20)});
  job.rank(0).announce_pause(1e300);
  job.enter(0, 8);
  job.enter(1, 9);
  poll(follower, 0);
  EXPECT_EQ(follower.view().hang.pause_left, std::chrono::hours(24));
  EXPECT_EQ(poll(follower, 2).alerts.size(), 1U);
}

TEST_F(PausedJob, MayBeAskedWhetherItHangsNow) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20), .ignores_pauses = true});
  job.rank(1).announce_pause(60);
  job.enter(0);
  poll(follower, 0);
  EXPECT_EQ(poll(follower, 20).alerts.size(), 1U);
}

TEST_F(PausedJob, HasNoPauseOfARankThatHasEnded) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20)});
  job.rank(1).announce_pause(60);
  job.rank(1).close();
  job.enter(0);
  poll(follower, 0);
  EXPECT_EQ(follower.view().hang.pause_left, seconds(0));
  EXPECT_EQ(poll(follower, 20).alerts.size(), 1U);
}

TEST_F(PausedJob, TakesAnAnnouncedPauseForNoUsualOne) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  job.rank(1).announce_pause(60);
  const Recorder::Slot slot = job.enter(0);
  poll(follower, 0);
  poll(follower, 50);
  job.call(1);
  job.rank(0).finish(slot);
  poll(follower, 51);
  EXPECT_EQ(follower.view().hang.limit, seconds(30));
}

}  // namespace
}  // namespace commlens
