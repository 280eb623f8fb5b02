// Alerts in words.
#include <gtest/gtest.h>

#include "commlens/app/watch.hpp"
#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

class AlertWords : public test_support::FollowerTest {
 protected:
  /// Of a circle: rank 0 makes a call on one communicator, rank 1 on another one.
  std::string words(bool is_blocking) {
    test_support::FollowedRanks job(path_);
    FolderFollower follower(path_, {.hang_after = std::chrono::seconds(20)});
    job.enter(0, 8, is_blocking, CommunicatorId{1});
    job.enter(1, 8, is_blocking, CommunicatorId{2});
    poll(follower, 0);
    const JobView& view = poll(follower, 20);
    return view.alerts.size() == 1 ? alert_text(view, view.alerts[0]) : "no alert, or several";
  }
};

TEST_F(AlertWords, SayThatRanksWaitForEachOther) {
  EXPECT_EQ(words(true), "deadlock: ranks 0-1 wait for each other; nothing of this moved for 20.0 s");
}

TEST_F(AlertWords, DoubtACircleOfRequests) {
  EXPECT_EQ(words(false),
            "deadlock: ranks 0-1 wait for each other, unless one with requests alone computes; nothing of "
            "this moved "
            "for 20.0 s");
}

}  // namespace
}  // namespace commlens
