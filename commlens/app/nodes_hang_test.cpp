#include "commlens/app/nodes_hang.hpp"

#include <chrono>
#include <fstream>

#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

/// The states of a job whose rank 1 does not take part in the second of two calls.
class NodesHang : public testing::Test {
 protected:
  NodesHang() : job_(scratch_ / "t") {
    job_.call(0);
    job_.call(1);
    job_.enter(0);
    publish();
  }
  /// The state of the node as it is now.
  void publish() const {
    WatchRequest node;
    node.directory = (scratch_ / "t").string();
    node.publish = (scratch_ / "states").string();
    node.is_single = true;
    node.hang_after = std::chrono::hours(1);
    node.stop_requested = [] { return true; };  // no rest before a second look
    EXPECT_TRUE(watch(node));
  }
  WatchRequest states() const {
    WatchRequest request;
    request.directory = (scratch_ / "states").string();
    request.stop_requested = [] { return true; };
    return request;
  }
  test_support::ScratchDirectory scratch_;
  test_support::FollowedRanks job_;
};

TEST_F(NodesHang, NamesTheRankThatIsMissing) {
  const Result<HangResult> found = hang_of_nodes(states(), {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->finding.verdict, HangVerdict::missing);
  ASSERT_EQ(found->finding.culprits.size(), 1U);
  EXPECT_EQ(found->job.ranks[found->finding.culprits[0].rank].state.rank, Rank{1});
  EXPECT_EQ(found->run, JobRun::running);
  EXPECT_FALSE(found->waits_below);
}

// States are of some seconds ago: another look need not have others.
TEST_F(NodesHang, SaysThatRanksWaitForLessThanThat) {
  const Result<HangResult> found = hang_of_nodes(states(), std::chrono::hours(1));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->is_stuck());
  EXPECT_EQ(found->waits_below, std::chrono::hours(1));
  const std::string text = rendered(*found, Format::table);
  EXPECT_TRUE(text.starts_with("nothing is stuck: ranks wait for others, for less than ")) << text;
}

// It is asked now: that a rank has announced a pause makes no wait shorter.
TEST_F(NodesHang, TakesNoNoticeOfAnAnnouncedPause) {
  job_.rank(1).announce_pause(3600);
  publish();
  const Result<HangResult> found = hang_of_nodes(states(), {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->finding.verdict, HangVerdict::missing);
  EXPECT_FALSE(found->waits_below);
}

// Its name may be anything.
TEST_F(NodesHang, SaysThatANodeIsLeftOutWithoutItsControlCharacters) {
  std::ofstream(scratch_ / "states" / "x\x1b[2J.state.json") << "{";
  const Result<HangResult> found = hang_of_nodes(states(), {});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_FALSE(found->notes.empty());
  EXPECT_NE(found->notes[0].find(".state.json: "), std::string::npos) << found->notes[0];
  EXPECT_EQ(rendered(*found, Format::table).find('\x1b'), std::string::npos);
}

TEST_F(NodesHang, FailsWithoutStates) {
  WatchRequest none = states();
  none.directory += "-none";
  EXPECT_FALSE(hang_of_nodes(none, {}));
}

}  // namespace
}  // namespace commlens
