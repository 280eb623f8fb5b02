// Jobs that follow each other in what one who follows nodes sees.
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "commlens/live/cluster_test_support.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/live/nodes_follower.hpp"

namespace commlens {
namespace {

using test_support::at;
using test_support::PlantedSource;

TEST(NodeJobs, ForgetsAnEarlierJob) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  test_support::PlannedCluster job(2);
  const auto tell = [&](std::int64_t node, std::int64_t number, const std::string& id) {
    NodeState state = job.state(node, number);
    state.view.job_id = id;
    news->emplace_back(state.node, std::move(state));
  };
  tell(0, 1, "17");
  tell(1, 1, "17");
  all.poll(at(0));
  EXPECT_EQ(all.view().generation, 1);
  EXPECT_EQ(all.view().ranks.size(), 16U);
  tell(0, 2, "18");
  all.poll(at(5));
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().job_id, "18");
  EXPECT_EQ(all.view().ranks.size(), 8U);  // the other node has not said that it has begun
  tell(1, 2, "18");
  all.poll(at(6));
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().ranks.size(), 16U);
}

// One state is of an earlier job, whose follower has gone.
TEST(NodeJobs, LeavesOutWhatIsLeftOfAnotherJob) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  const test_support::PlannedCluster job(2);
  NodeState old = job.state(0, 1);
  old.view.name = "old";
  old.age = std::chrono::minutes(5);
  news->emplace_back("old", std::move(old));
  news->emplace_back("new", job.state(1, 1));
  all.poll(at(0));
  EXPECT_EQ(all.view().name, "planned");
  EXPECT_EQ(all.view().ranks.size(), 8U);
  EXPECT_EQ(all.view().error, "1 of 2 nodes is left out, since it tells of another job than planned");
}

/// A job of which a test says when it runs and when it has ended, on nodes of its own.
class JobOfANode {
 public:
  JobOfANode(std::shared_ptr<PlantedSource::News> news, std::string name, std::int64_t node)
      : news_(std::move(news)), name_(std::move(name)), node_(node) {}
  void tell(LiveState job, const std::string& place = {}) {
    NodeState state = cluster_.state(node_, ++number_);
    state.follower = name_;
    state.view.name = name_;
    state.view.state = job;
    const std::string where = place.empty() ? name_ : place;
    news_->emplace_back(where, std::move(state));
  }

 private:
  std::shared_ptr<PlantedSource::News> news_;
  std::string name_;
  std::int64_t node_;
  test_support::PlannedCluster cluster_{2};
  std::int64_t number_ = 0;
};

TEST(NodeJobs, GoesOnWithTheNextJobOnOtherNodes) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  JobOfANode first(news, "first", 0);
  JobOfANode second(news, "second", 1);
  first.tell(LiveState::running);
  all.poll(at(0));
  first.tell(LiveState::ended);
  all.poll(at(5));
  EXPECT_EQ(all.view().generation, 1);
  second.tell(LiveState::running);
  all.poll(at(20));
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().name, "second");
  ASSERT_EQ(all.view().ranks.size(), 8U);
  EXPECT_EQ(all.view().ranks[0].rank, Rank{8});
  second.tell(LiveState::running);
  all.poll(at(200));  // it does not come back
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().ranks.size(), 8U);
  EXPECT_EQ(all.view().error, "1 of 2 nodes is left out, since it tells of another job than second");
}

// The first one had ended before it was followed.
TEST(NodeJobs, GoesOnWithTheJobAfterOneThatHadEnded) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  JobOfANode first(news, "first", 0);
  JobOfANode second(news, "second", 1);
  first.tell(LiveState::ended);
  all.poll(at(0));
  EXPECT_EQ(all.view().name, "first");
  second.tell(LiveState::running);
  all.poll(at(5));
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().name, "second");
  EXPECT_EQ(all.view().ranks.size(), 8U);
}

// Its follower was killed: its state says "running" for ever.
TEST(NodeJobs, GoesOnWithTheJobAfterOneThatIsSilent) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  JobOfANode first(news, "first", 0);
  JobOfANode second(news, "second", 1);
  first.tell(LiveState::running);
  all.poll(at(0));
  second.tell(LiveState::running);
  all.poll(at(100));
  EXPECT_EQ(all.view().generation, 2);
  EXPECT_EQ(all.view().ranks.size(), 8U);
}

// Where they do the same name for its folder on each node, a node of the first one may be left.
TEST(NodeJobs, GoesOnWithTheNextJobOnOneOfTheNodes) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  JobOfANode left(news, "first", 0);
  JobOfANode first(news, "first", 1);
  JobOfANode second(news, "second", 1);
  left.tell(LiveState::running, "n0");
  first.tell(LiveState::running, "n1");
  all.poll(at(0));
  EXPECT_EQ(all.view().ranks.size(), 16U);
  left.tell(LiveState::ended, "n0");
  first.tell(LiveState::ended, "n1");
  all.poll(at(5));
  second.tell(LiveState::running, "n1");
  for (const std::int64_t second_of_look : {10, 100}) {
    all.poll(at(second_of_look));
    EXPECT_EQ(all.view().generation, 2) << second_of_look;
    EXPECT_EQ(all.view().name, "second");
    EXPECT_EQ(all.view().ranks.size(), 8U);
  }
}

// It says "running" for ever.
TEST(NodeJobs, AreUnknownWhereTheOnlyFollowerWasKilled) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {.is_single = true});
  NodeState left = test_support::PlannedCluster(1).state(0, 1);
  left.age = std::chrono::seconds(21);  // four intervals of 5 s, and more
  news->emplace_back("n0", std::move(left));
  all.poll(at(0));
  EXPECT_EQ(all.view().state, LiveState::unknown);
  EXPECT_EQ(all.view().error, "the only node is silent: n0");
  EXPECT_EQ(all.view().ranks[7].error, "n0 has said nothing for 21 s");
}

// A rank that begins late gives a node the number of its job.
TEST(NodeJobs, TakesTheNumberOfAJobForNoOtherJob) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  const test_support::PlannedCluster job(2);
  for (const std::string id : {"", "17"}) {
    NodeState state = job.state(0, id.empty() ? 1 : 2);
    state.view.job_id = id;
    news->emplace_back("n0", std::move(state));
    all.poll(at(0));
  }
  EXPECT_EQ(all.view().generation, 1);
  EXPECT_EQ(all.view().job_id, "17");
}

// Another follower, after a restart, and other processes with the same ranks: another recording.
TEST(NodeJobs, KnowsAnotherRecordingByItsProcesses) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  const test_support::PlannedCluster job(1);
  const auto generation = [&](const std::string& follower, std::int64_t started) {
    NodeState state = job.state(0, 1);
    state.follower = follower;
    state.view.ranks[3].process->start_ticks = started;
    news->emplace_back("n0", std::move(state));
    all.poll(at(0));
    return all.view().generation;
  };
  EXPECT_EQ(generation("a", 1), 1);
  EXPECT_EQ(generation("b", 1), 1);
  EXPECT_EQ(generation("c", 2), 2);
}

}  // namespace
}  // namespace commlens
