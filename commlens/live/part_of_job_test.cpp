// A folder that has the files of some ranks of a job.
#include <chrono>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

/// Ranks 0 and 1 of four have files here.
class PartOfAJob : public test_support::FollowerTest {
 protected:
  /// The alerts of one who follows these ranks for a minute.
  std::vector<LiveAlert> alerts(bool is_part) {
    FolderFollower follower(path_, {.hang_after = std::chrono::seconds(20), .is_part = is_part});
    poll(follower, 0);
    view_ = poll(follower, 60);
    return view_.alerts;
  }
  /// The rank makes a communicator of one of these members (none: not known), which is not numbered.
  Recorder::Slot split(std::int64_t rank, const std::vector<Rank>& members) {
    Recorder& recorder = job_.rank(rank);
    return recorder.begin({.kind = CommKind::other,
                           .group = recorder.group(members, Axis::unknown, CommunicatorId{7}),
                           .blocking = true,
                           .tag = {},
                           .name = recorder.name("MPI_Comm_split")});
  }
  test_support::FollowedRanks job_{path_, 4};
  JobView view_;
};

TEST_F(PartOfAJob, FiresNothingForRanksOfOtherNodes) {
  job_.enter(0);
  job_.enter(1);
  EXPECT_TRUE(alerts(true).empty());
  EXPECT_EQ(view_.ranks[0].state, LiveRankState::in_call);
  EXPECT_EQ(view_.hang.finding.verdict, HangVerdict::missing);
  ASSERT_EQ(alerts(false).size(), 1U);  // of all ranks: 2 and 3 never began
  EXPECT_EQ(view_.alerts[0].culprits, (std::vector{Rank{2}, Rank{3}}));
  EXPECT_EQ(view_.ranks[0].state, LiveRankState::stuck);
  std::filesystem::remove(path_ / "manifest.json");
  EXPECT_TRUE(alerts(false).empty());
}

TEST_F(PartOfAJob, FiresForARankOfItsOwn) {
  job_.enter(0);
  job_.rank(1);
  ASSERT_EQ(alerts(true).size(), 1U);
  EXPECT_EQ(view_.alerts[0].culprits, std::vector{Rank{1}});
}

// It is in no call, but may be in MPI_Wait, which is not recorded.
TEST_F(PartOfAJob, FiresNothingForARankThatMayWaitForOthers) {
  job_.enter(0);
  Recorder& recorder = job_.rank(1);
  const Recorder::Slot request =
      recorder.begin({.kind = CommKind::recv,
                      .dtype = DType::fp32,
                      .group = recorder.group({Rank{3}, Rank{1}}, Axis::unknown, CommunicatorId{7}),
                      .input = Elements{8},
                      .output = Elements{8},
                      .blocking = false,
                      .tag = {}});
  EXPECT_TRUE(alerts(true).empty());
  recorder.finish(request);
  EXPECT_EQ(alerts(true).size(), 1U);
}

TEST_F(PartOfAJob, FiresNothingInCallsWithoutNumbersThatOthersTakePartIn) {
  const std::vector<Rank> all = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  split(0, all);
  const Recorder::Slot slot = split(1, all);
  EXPECT_TRUE(alerts(true).empty());
  EXPECT_EQ(view_.hang.finding.verdict, HangVerdict::unmatched);
  ASSERT_EQ(alerts(false).size(), 1U);
  EXPECT_EQ(view_.alerts[0].verdict, HangVerdict::unmatched);
  job_.rank(1).finish(slot);
  split(1, {Rank{0}, Rank{1}});
  EXPECT_TRUE(alerts(true).empty());  // rank 0 may wait for 2 and 3
}

TEST_F(PartOfAJob, FiresNothingInCallsWhoseMembersAreNotKnown) {
  split(0, {});
  split(1, {});
  EXPECT_TRUE(alerts(true).empty());
  EXPECT_EQ(alerts(false).size(), 1U);
}

TEST_F(PartOfAJob, FiresInCallsWithoutNumbersOfItsOwnRanks) {
  split(0, {Rank{0}, Rank{1}});
  split(1, {Rank{0}, Rank{1}});
  ASSERT_EQ(alerts(true).size(), 1U);
  EXPECT_EQ(view_.alerts[0].verdict, HangVerdict::unmatched);
  EXPECT_TRUE(view_.alerts[0].culprits.empty());
}

}  // namespace
}  // namespace commlens
