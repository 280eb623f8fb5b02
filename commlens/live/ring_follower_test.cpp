// Jobs whose ranks keep their last calls alone: the numbers of the rest are those of the whole job.
#include <cstdint>

#include <gtest/gtest.h>

#include "commlens/live/folder_follower.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/live/hang_verdict.hpp"
#include "commlens/live/job_progress.hpp"
#include "commlens/trace/job_states.hpp"

namespace commlens {
namespace {

using test_support::FollowedRanks;
using test_support::FollowerTest;

constexpr CommunicatorId k_other{8};

class RingFollower : public FollowerTest {
 protected:
  static void make(FollowedRanks& job, std::int64_t rank, int calls,
                   CommunicatorId communicator = CommunicatorId{7}) {
    for (int call = 0; call < calls; ++call) {
      job.rank(rank).finish(job.enter(rank, 8, true, communicator));
    }
  }
  /// What `hang` finds in the files as they are.
  HangFinding found() {
    const Result<JobStates> states = JobStates::open(path_);
    EXPECT_TRUE(states) << states.error().message;
    progress_ = progress_of(*states);
    return find_hang(progress_, wait_graph(progress_));
  }
  JobProgress progress_;
};

TEST_F(RingFollower, ThatKeepsUpMissesNothing) {
  FollowedRanks job(path_, 2, 8);
  FolderFollower follower(path_);
  for (int lap = 1; lap <= 20; ++lap) {
    make(job, 0, 5);
    EXPECT_EQ(poll(follower).totals.calls, 5 * lap);
  }
  EXPECT_TRUE(follower.view().lost.empty());
  EXPECT_EQ(follower.view().ranks[0].lost, 0);
}

TEST_F(RingFollower, ThatIsLappedCountsWhatItMissedAndKnowsTheNumbersAgain) {
  FollowedRanks job(path_, 2, 8);
  FolderFollower follower(path_);
  make(job, 0, 5);
  poll(follower);
  make(job, 0, 20);  // the last 8 of 25 are there, 5 were read
  job.enter(0);      // and this one takes the place of the first of these
  const JobView& view = poll(follower);
  EXPECT_EQ(view.totals.calls, 5 + 7);
  EXPECT_EQ(view.lost.at("call overwritten, ring full"), 13);
  EXPECT_EQ(view.ranks[0].lost_records, 0);
  EXPECT_EQ(view.ranks[0].lost, 0);
  ASSERT_TRUE(view.ranks[0].call);
  EXPECT_EQ(view.ranks[0].call->number, 26);
}

TEST_F(RingFollower, ThatComesLateNamesTheRankThatIsMissing) {
  FollowedRanks job(path_, 2, 8);
  make(job, 0, 30);
  make(job, 1, 30);
  make(job, 1, 50, k_other);  // its window has no call of the communicator left
  make(job, 0, 50, k_other);
  job.enter(0);
  const HangFinding offline = found();
  EXPECT_EQ(offline.verdict, HangVerdict::missing);
  ASSERT_EQ(offline.culprits.size(), 1U);
  EXPECT_EQ(progress_.ranks[offline.culprits[0].rank].state.rank, Rank{1});
  EXPECT_EQ(progress_.ranks[0].open.at(0).number, 31);
  EXPECT_EQ(progress_.ranks[0].calls, 81);
  EXPECT_EQ(progress_.ranks[0].state.lost, 0);
  FolderFollower follower(path_);
  const JobView& view = poll(follower);
  EXPECT_EQ(view.hang.finding.verdict, HangVerdict::missing);
  ASSERT_EQ(view.hang.finding.culprits.size(), 1U);
  EXPECT_EQ(view.hang.finding.culprits[0].rank, 1U);
  EXPECT_EQ(view.ranks[0].call->number, 31);
  EXPECT_EQ(view.lost.at("call overwritten, ring full"), 81 - 8 + 80 - 8);
}

// Windows begin at different calls, which a comparison of the k-th with the k-th would take for others.
TEST_F(RingFollower, WindowsThatBeginAtDifferentCallsAreNoMismatch) {
  FollowedRanks job(path_, 2, 8);
  for (int call = 0; call < 40; ++call) {
    job.call(0, 8 + call % 3);
    job.call(1, 8 + call % 3);
  }
  make(job, 0, 3, k_other);
  make(job, 1, 3, k_other);
  make(job, 1, 2, CommunicatorId{9});
  make(job, 0, 2, CommunicatorId{9});
  job.rank(0).finish(job.rank(0).begin(
      {.kind = CommKind::barrier, .group = job.rank(0).group({Rank{0}}, Axis::self), .tag = {}}));
  job.enter(0, 100);
  job.enter(1, 100);
  EXPECT_EQ(found().verdict, HangVerdict::all_inside);
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).hang.finding.verdict, HangVerdict::all_inside);
  EXPECT_EQ(follower.view().ranks[0].call->number, 41);
  EXPECT_EQ(follower.view().ranks[1].call->number, 41);
}

TEST_F(RingFollower, RealMismatchesAreFound) {
  FollowedRanks job(path_, 2, 8);
  make(job, 0, 40);
  make(job, 1, 40);
  job.enter(0, 100);
  job.enter(1, 200);
  EXPECT_EQ(found().verdict, HangVerdict::mismatch);
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).hang.finding.verdict, HangVerdict::mismatch);
}

// One thread waits while another one goes on for laps.
TEST_F(RingFollower, ACallUnderWayThatIsOverwrittenIsStillUnderWay) {
  FollowedRanks job(path_, 2, 8);
  FolderFollower follower(path_);
  make(job, 0, 4);
  const Recorder::Slot slot = job.enter(0);
  poll(follower);
  make(job, 1, 4);
  for (int lap = 0; lap < 5; ++lap) {
    make(job, 0, 7, k_other);
    poll(follower);
  }
  FolderFollower late(path_);
  for (FolderFollower* const each : {&follower, &late}) {
    const JobView& view = poll(*each);
    EXPECT_EQ(view.ranks[0].open_calls, 1);
    ASSERT_TRUE(view.ranks[0].call);
    EXPECT_EQ(view.ranks[0].call->number, 5);
    EXPECT_EQ(view.hang.finding.verdict, HangVerdict::missing);
  }
  EXPECT_TRUE(follower.view().lost.empty());
  EXPECT_EQ(found().verdict, HangVerdict::missing);
  job.rank(0).finish(slot);
  EXPECT_EQ(poll(follower).ranks[0].open_calls, 0);
  EXPECT_EQ(poll(late).ranks[0].open_calls, 0);
  EXPECT_EQ(follower.view().lost.at("call overwritten, ring full"), 1);
  EXPECT_EQ(follower.view().ranks[0].lost, 0);
  EXPECT_EQ(found().verdict, HangVerdict::none);
}

// Whether a request was cancelled, which moves the numbers of later ones, is not to be seen any more.
TEST_F(RingFollower, ARequestWhoseEndIsNotSeenMakesTheNumbersUnknown) {
  FollowedRanks job(path_, 2, 8);
  FolderFollower follower(path_);
  Recorder& recorder = job.rank(0);
  const GroupId pair = recorder.group({Rank{1}, Rank{0}}, Axis::unknown, CommunicatorId{7});
  const Recorder::Slot slot = recorder.begin(
      {.kind = CommKind::recv, .group = pair, .output = Elements{8}, .blocking = false, .tag = {}});
  poll(follower);
  make(job, 0, 6);
  poll(follower);
  make(job, 0, 6);
  EXPECT_EQ(poll(follower).ranks[0].lost, 0);
  recorder.fail(slot, CallEnd::cancelled);
  EXPECT_EQ(poll(follower).ranks[0].lost, 1);
}

}  // namespace
}  // namespace commlens
