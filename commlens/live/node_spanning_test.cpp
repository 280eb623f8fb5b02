// Which ranks delay those of other nodes: four nodes of two ranks, each with a folder and a clock of its own.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/live/cluster_test_support.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/live/nodes_follower.hpp"
#include "commlens/live/spanning_late.hpp"

namespace commlens {
namespace {

using test_support::at;
using test_support::FollowedRanks;
using test_support::PlannedCluster;

constexpr std::int64_t k_hour_ns = 3'600'000'000'000;
constexpr std::int64_t k_job_ranks = 8;
constexpr std::size_t k_job_nodes = 4;

/// Hands over states of nodes.
class ToldSource final : public NodeSource {
 public:
  using News = std::vector<NodeState>;
  explicit ToldSource(std::shared_ptr<News> news) : news_(std::move(news)) {}
  void look(const Sink& sink) override {
    for (NodeState& state : *news_) {
      const std::string place = state.node;
      sink(place, std::move(state));
    }
    news_->clear();
  }

 private:
  std::shared_ptr<News> news_;
};

NodeState read_back(const NodeState& state) {
  const std::string text = node_state_text(state);
  Result<NodeState> read = node_state_from(text);
  if (!read) {
    ADD_FAILURE() << read.error().message << " " << text;
    return {};
  }
  EXPECT_EQ(node_state_text(*read), text);
  return std::move(*read);
}

JobView view_of(std::vector<NodeState> states) {
  auto news = std::make_shared<ToldSource::News>(std::move(states));
  NodesFollower all(std::make_unique<ToldSource>(news), "job", {});
  all.poll(at(0));
  return all.view();
}

struct JobForm {
  std::vector<std::int64_t> slow = {};  // ranks
  bool is_marked = false;
  std::int64_t ring = 0;
};

class FourNodes {
 public:
  explicit FourNodes(JobForm form) : form_(std::move(form)) {
    for (std::size_t node = 0; node < k_job_nodes; ++node) {
      folders_.push_back(std::make_unique<FollowedRanks>(directory_.path() / fmt::format("n{}", node),
                                                         k_job_ranks, form_.ring));
    }
  }

  /// A rank works for 1 us, a slow one for 5; it meets that of its node, then those of its place, then all,
  /// with 10 ns of work between. So it works 1,020 ns or 5,020 a step, and of the 5,420 ns of a step that has
  /// a slow rank spends 4,400 in calls or 400.
  void step() {
    for (std::int64_t rank = 0; rank < k_job_ranks; ++rank) {
      if (form_.is_marked) {
        recorder(rank).set_iteration(static_cast<Iteration>(steps_));
      }
      work(rank, std::count(form_.slow.begin(), form_.slow.end(), rank) > 0 ? 5000 : 1000);
    }
    for (std::int64_t node = 0; node < 4; ++node) {
      meet({2 * node, 2 * node + 1}, 100);
    }
    work_all(10);
    meet({0, 2, 4, 6}, 100);
    meet({1, 3, 5, 7}, 100);
    work_all(10);
    meet({0, 1, 2, 3, 4, 5, 6, 7}, 200);
    ++steps_;
  }

  /// The follower of a node looks; the first time, it begins.
  const JobView& look(std::size_t node) {
    if (!followers_[node]) {
      followers_[node] = std::make_unique<FolderFollower>(directory_.path() / fmt::format("n{}", node));
    }
    EXPECT_TRUE(followers_[node]->poll(at(steps_)));
    return followers_[node]->view();
  }
  NodeState tell(std::size_t node) {
    return read_back(node_state_of(look(node), fmt::format("n{}", node), std::chrono::seconds(5)));
  }

 private:
  Recorder& recorder(std::int64_t rank) { return folders_[static_cast<std::size_t>(rank / 2)]->rank(rank); }
  std::int64_t& now(std::int64_t rank) { return now_ns_[static_cast<std::size_t>(rank)]; }
  /// Clocks of nodes are an hour apart.
  std::int64_t clock_of(std::int64_t rank) { return now(rank) + (1 + rank / 2) * k_hour_ns; }
  void work(std::int64_t rank, std::int64_t ns) { now(rank) += ns; }
  void work_all(std::int64_t ns) {
    for (std::int64_t rank = 0; rank < k_job_ranks; ++rank) {
      work(rank, ns);
    }
  }
  /// Ends for all of them `cost_ns` after the last has come.
  void meet(const std::vector<std::int64_t>& members, std::int64_t cost_ns) {
    std::int64_t last = 0;
    std::vector<Rank> group;
    for (const std::int64_t rank : members) {
      last = std::max(last, now(rank));
      group.push_back(Rank{rank});
    }
    const auto communicator = static_cast<std::uint64_t>(1 + members.front() + 8 * std::ssize(members));
    for (const std::int64_t rank : members) {
      const Recorder::Slot slot = recorder(rank).begin(
          {.kind = CommKind::all_reduce,
           .dtype = DType::fp32,
           .group = recorder(rank).group(group, Axis::unknown, CommunicatorId{communicator}),
           .input = Elements{8},
           .output = Elements{8},
           .blocking = true,
           .tag = {}},
          clock_of(rank));
      now(rank) = last + cost_ns;
      recorder(rank).finish(slot, clock_of(rank));
    }
  }

  test_support::ScratchDirectory directory_;
  JobForm form_;
  std::vector<std::unique_ptr<FollowedRanks>> folders_;
  std::array<std::unique_ptr<FolderFollower>, k_job_nodes> followers_;
  std::array<std::int64_t, k_job_ranks> now_ns_{};
  std::int64_t steps_ = 0;
};

/// What is known of all ranks after 1,500 steps: nodes are looked at each 50 steps, node 1 from the middle
/// on; node 0 tells its state first, and the last one 100 steps later.
JobView followed(const JobForm& form) {
  FourNodes job(form);
  std::vector<NodeState> states;
  for (std::int64_t step = 0; step < 1500; ++step) {
    job.step();
    for (std::size_t node = 0; node < k_job_nodes && step % 50 == 0; ++node) {
      if (node != 1 || step >= 500) {
        static_cast<void>(job.look(node));
      }
    }
    const std::int64_t told = 1400 + 33 * std::ssize(states);
    if (step == told && states.size() < k_job_nodes) {
      states.push_back(job.tell(states.size()));
    }
  }
  EXPECT_EQ(states.size(), k_job_nodes);
  return view_of(std::move(states));
}

void expect_late(const JobView& view, const std::vector<std::int64_t>& late) {
  ASSERT_EQ(view.ranks.size(), 8U);
  for (const LiveRank& rank : view.ranks) {
    const bool is_late = std::count(late.begin(), late.end(), rank.rank.value) > 0;
    ASSERT_TRUE(rank.late_score) << "rank " << rank.rank.value;
    EXPECT_EQ(*rank.late_score, is_late ? 1.0 : 0.0) << "rank " << rank.rank.value;
    EXPECT_EQ(rank.late_members, 8) << "rank " << rank.rank.value;
  }
}

TEST(SpanningLate, NamesTheRankThatAllNodesWaitFor) {
  for (const bool is_marked : {false, true}) {
    SCOPED_TRACE(is_marked);
    expect_late(followed({.slow = {5}, .is_marked = is_marked}), {5});
  }
}

// The ranks of a node that is slow itself are alike, so that nothing is to be seen within it.
TEST(SpanningLate, NamesTheNodeThatAllOthersWaitFor) {
  FourNodes job({.slow = {4, 5}});
  for (std::int64_t step = 0; step < 1000; ++step) {
    job.step();
  }
  const JobView& alone = job.look(2);
  EXPECT_EQ(alone.ranks[4].late_score, 0.0);
  EXPECT_EQ(alone.ranks[4].late_members, 2);
  expect_late(followed({.slow = {4, 5}}), {4, 5});
}

TEST(SpanningLate, NamesNobodyWhereAllAreAlike) {
  for (const bool is_marked : {false, true}) {
    expect_late(followed({.is_marked = is_marked}), {});
  }
}

// A ring keeps 85 steps: the node that is followed from step 500 on has seen none before step 415.
TEST(SpanningLate, IsKnownOfRingsThatAreFollowedLater) {
  for (const bool is_marked : {false, true}) {
    SCOPED_TRACE(is_marked);
    expect_late(followed({.slow = {5}, .is_marked = is_marked, .ring = 256}), {5});
    expect_late(followed({.slow = {2}, .is_marked = is_marked, .ring = 256}), {2});
  }
}

std::vector<NodeState> planned(const PlannedCluster& job, std::int64_t nodes) {
  std::vector<NodeState> states;
  for (std::int64_t node = 0; node < nodes; ++node) {
    states.push_back(read_back(job.state(node, 1)));
  }
  return states;
}

std::vector<std::int64_t> late_ranks(const JobView& view) {
  std::vector<std::int64_t> late;
  for (const LiveRank& rank : view.ranks) {
    if (rank.late_score.value_or(0) > 0) {
      late.push_back(rank.rank.value);
    }
  }
  return late;
}

TEST(SpanningLate, NamesOneOfAThousandRanks) {
  PlannedCluster job(128);
  EXPECT_EQ(late_ranks(view_of(planned(job, 128))), std::vector<std::int64_t>{});
  job.slow_down(Rank{515});
  const JobView view = view_of(planned(job, 128));
  EXPECT_EQ(late_ranks(view), std::vector<std::int64_t>{515});
  EXPECT_EQ(view.ranks[515].late_score, 1.0);
  EXPECT_EQ(view.ranks[0].late_score, 0.0);
}

TEST(SpanningLate, NeedsMostMembers) {
  PlannedCluster job(16);
  job.slow_down(Rank{3});
  EXPECT_EQ(late_ranks(view_of(planned(job, 9))), std::vector<std::int64_t>{3});
  const JobView view = view_of(planned(job, 8));
  EXPECT_FALSE(view.ranks[3].late_score);
  EXPECT_FALSE(view.ranks[4].late_score);
}

// As of a follower of an earlier release.
TEST(SpanningLate, IsNotKnownOfStatesWithoutBlocks) {
  const PlannedCluster job(2);
  std::vector<NodeState> states;
  for (std::int64_t node = 0; node < 2; ++node) {
    nlohmann::json old = nlohmann::json::parse(node_state_text(job.state(node, 1)));
    old.erase("spanning");
    old["ranks"][0].erase("late_members");
    Result<NodeState> read = node_state_from(old.dump());
    ASSERT_TRUE(read) << read.error().message;
    states.push_back(std::move(*read));
  }
  EXPECT_FALSE(view_of(std::move(states)).ranks[0].late_score);
}

TEST(SpanningLate, IsJudgedByTheNodeWhereThatKnowsTheWiderCommunicator) {
  PlannedCluster job(2);
  job.slow_down(Rank{3});
  std::vector<NodeState> states = planned(job, 2);
  states[0].view.ranks[3].late_score = 0.25;
  states[0].view.ranks[3].late_members = 17;
  EXPECT_EQ(view_of(states).ranks[3].late_score, 0.25);
  states[0].view.ranks[3].late_members = 8;
  EXPECT_EQ(view_of(states).ranks[3].late_score, 1.0);
}

/// Rank 1 works 50 ms of each unit of 100 ms and 64 calls, the others 30 ms.
SpanningWork work_of(std::int64_t rank, std::int64_t begin, std::int64_t end, std::int64_t units) {
  const std::int64_t work_ns = rank == 1 ? 50'000'000 : 30'000'000;
  SpanningWork work{.rank = Rank{rank}, .channel = 0, .is_marked = true, .begin = begin, .blocks = {}};
  for (std::int64_t unit = begin; unit < end; unit += units) {
    work.blocks.push_back({.end = unit + units,
                           .work = {.calls = 64 * units,
                                    .signature = static_cast<std::uint64_t>(units),
                                    .between_ns = units * work_ns,
                                    .in_calls_ns = units * (100'000'000 - work_ns)}});
  }
  return work;
}

/// The score of rank 1, whose node knows that it is as fast as another.
double score_of_one(const std::vector<SpanningWork>& works) {
  SpanningLate late;
  std::vector<Rank> members;
  for (const SpanningWork& work : works) {
    late.add(work);
    members.push_back(work.rank);
  }
  std::vector<LiveRank> ranks = {LiveRank{.rank = Rank{1}}};
  ranks[0].late_score = 0;
  ranks[0].late_members = 2;
  late.judge({CallChannel{.members = members}}, ranks);
  return *ranks[0].late_score;
}

// Of 12 blocks of a unit and 12 of two that end together, 6 of two units are common: 12 of the smaller ones.
// Where the larger ones end 4 units before, 4 are common, of 8; where they end 6 before, 3.
TEST(SpanningLate, IsKnownWhereTheBlocksOfAMemberAreTwiceAsLarge) {
  const std::vector<SpanningWork> fine = {work_of(0, 100, 112, 1), work_of(1, 100, 112, 1),
                                          work_of(2, 100, 112, 1)};
  const auto with = [&](const SpanningWork& coarse) {
    std::vector<SpanningWork> all = fine;
    all.push_back(coarse);
    return score_of_one(all);
  };
  EXPECT_EQ(with(work_of(3, 88, 112, 2)), 1.0);
  EXPECT_EQ(with(work_of(3, 84, 108, 2)), 1.0);
  EXPECT_EQ(with(work_of(3, 82, 106, 2)), 0.0);
  EXPECT_EQ(with(work_of(3, 64, 112, 4)), 0.0);
}

TEST(SpanningLate, IsNotKnownByHalfTheBlocksWhereAllAreAsLarge) {
  const auto of_four = [](std::int64_t blocks) {
    std::vector<SpanningWork> all;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      all.push_back(work_of(rank, 0, blocks, 1));
    }
    return score_of_one(all);
  };
  EXPECT_EQ(of_four(7), 0.0);
  EXPECT_EQ(of_four(8), 1.0);
}

// Who tells a rank again and again would have all that is kept of it judged at each look.
TEST(NodeState, BlocksOfARankThatAreTooManyAreRefused) {
  const nlohmann::json good = nlohmann::json::parse(node_state_text(PlannedCluster(2).state(0, 1)));
  ASSERT_TRUE(node_state_from(good.dump()));
  nlohmann::json third = good;  // it is in two already
  third["spanning"].push_back(good["spanning"][0]);
  EXPECT_EQ(node_state_from(third.dump()).error().message, "spanning has a rank too often");
  nlohmann::json twice = good;
  twice["spanning"] = nlohmann::json::array({good["spanning"][0]});
  EXPECT_TRUE(node_state_from(twice.dump()));
  twice["spanning"][0]["times"].push_back(good["spanning"][0]["times"][0]);
  EXPECT_EQ(node_state_from(twice.dump()).error().message, "spanning has a rank too often");
}

TEST(NodeState, BlocksThatCannotBeAreRefused) {
  using namespace nlohmann::literals;
  const nlohmann::json good = nlohmann::json::parse(node_state_text(PlannedCluster(2).state(0, 1)));
  const auto error_of = [&](const char* place, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(place)] = value;
    const Result<NodeState> read = node_state_from(bad.dump());
    return read ? "" : read.error().message;
  };
  const std::string cannot_be = "spanning has blocks that cannot be";
  ASSERT_EQ(good["spanning"][0]["bounds"].size(), 13U);
  EXPECT_EQ(error_of("/number", 2), "");
  EXPECT_EQ(error_of("/spanning", 3), "\"spanning\" must be an array");
  EXPECT_EQ(error_of("/spanning/0/channel", 10), "spanning \"channel\" must be an integer from 0 to 9");
  nlohmann::json of_pair = good;
  of_pair["channels"].push_back({{"kind", "pair"}, {"members", {{0, 2, 1}}}, {"communicator", ""}});
  of_pair["spanning"][0]["channel"] = 10;
  EXPECT_EQ(node_state_from(of_pair.dump()).error().message, "spanning is of a channel without collectives");
  EXPECT_EQ(error_of("/spanning/0/bounds/1", 192), cannot_be);  // as the first
  EXPECT_EQ(error_of("/spanning/0/bounds/0", -1), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/bounds/12", (std::int64_t{1} << 56) + 1), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/bounds", {1}), cannot_be);
  nlohmann::json many = nlohmann::json::array();
  for (int bound = 0; bound < 14; ++bound) {
    many.push_back(bound);
  }
  EXPECT_EQ(error_of("/spanning/0/bounds", many), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/calls/0", 0), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/calls", {1}), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/signatures/0", 65'536), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/times/0/0", 8), "spanning has a rank that there is not");
  EXPECT_EQ(error_of("/spanning/0/times/0/1", 0), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/times/0/1", 100'000'000'001), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/times/0/2", 100'000), cannot_be);
  EXPECT_EQ(error_of("/spanning/0/times/0", {0, 1}), cannot_be);
  EXPECT_EQ(error_of("/ranks/0/late_members", -1),
            "ranks \"late_members\" must be an integer from 0 to 131072");
}

}  // namespace
}  // namespace commlens
