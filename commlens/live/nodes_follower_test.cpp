// Jobs of two nodes, each with a folder of its own that has the files of its ranks alone.
#include "commlens/live/nodes_follower.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/live/cluster_test_support.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/live/spool.hpp"

namespace commlens {
namespace {

using test_support::at;
using test_support::FollowedRanks;
using test_support::PlantedSource;
using Ranks = std::vector<std::int64_t>;

constexpr std::chrono::nanoseconds k_second = std::chrono::seconds(1);

/// Four ranks on two machines, and one who follows both.
class TwoNodes {
 public:
  explicit TwoNodes(std::optional<std::chrono::nanoseconds> hang_after = std::chrono::seconds(30),
                    bool are_parts = false)
      : a_(directory_.path() / "a", 4),
        b_(directory_.path() / "b", 4),
        on_a_(directory_.path() / "a", {.is_part = are_parts}),
        on_b_(directory_.path() / "b", {.is_part = are_parts}),
        news_(std::make_shared<PlantedSource::News>()),
        all_(std::make_unique<PlantedSource>(news_), "job", {.hang_after = hang_after}) {}

  FollowedRanks& of(std::int64_t rank) { return rank < 2 ? a_ : b_; }
  void call(std::int64_t rank, std::int64_t elements = 8) { of(rank).call(rank, elements); }
  Recorder::Slot enter(std::int64_t rank, std::int64_t elements = 8) {
    return of(rank).enter(rank, elements);
  }

  /// What the follower of a node says then, through the text of its file.
  NodeState state(std::size_t node, std::int64_t second) {
    FolderFollower& follower = node == 0 ? on_a_ : on_b_;
    EXPECT_TRUE(follower.poll(at(second)));
    const NodeState state = node_state_of(follower.view(), node == 0 ? "a" : "b", k_second);
    const std::string text = node_state_text(state);
    Result<NodeState> read = node_state_from(text);
    EXPECT_TRUE(read) << read.error().message;
    EXPECT_EQ(node_state_text(*read), text);
    return std::move(*read);
  }
  void tell(std::size_t node, std::int64_t second) {
    news_->emplace_back(node == 0 ? "a" : "b", state(node, second));
  }
  /// Both nodes at one moment, whose stopwatches differ by hours.
  const JobView& look(std::int64_t second) {
    tell(0, second);
    tell(1, second + 7200);
    return look_again(second);
  }
  const JobView& look_again(std::int64_t second) {
    all_.poll(at(second));
    return all_.view();
  }

 private:
  test_support::ScratchDirectory directory_;
  FollowedRanks a_;
  FollowedRanks b_;
  FolderFollower on_a_;
  FolderFollower on_b_;
  std::shared_ptr<PlantedSource::News> news_;
  NodesFollower all_;
};

Ranks culprits(const JobView& view) {
  Ranks ranks;
  for (const LiveAlert& alert : view.alerts) {
    for (const Rank rank : alert.culprits) {
      ranks.push_back(rank.value);
    }
  }
  return ranks;
}

constexpr bool k_parts = true;

TEST(NodesFollower, FiresNothingForRanksOfNodesThatItDoesNotFollow) {
  TwoNodes job(std::chrono::seconds(30), k_parts);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  for (const std::int64_t rank : {0, 1, 3}) {
    job.enter(rank);
  }
  const auto look_at_first = [&](std::int64_t second) {
    job.tell(0, second);
    return culprits(job.look_again(second));
  };
  EXPECT_EQ(look_at_first(1), Ranks{});
  EXPECT_EQ(look_at_first(60), Ranks{});
  EXPECT_EQ(job.look_again(60).hang.finding.verdict, HangVerdict::missing);
  EXPECT_TRUE(job.look_again(60).alerts.empty());
  EXPECT_EQ(culprits(job.look(61)), Ranks{});  // from now on node b tells of its ranks
  EXPECT_EQ(culprits(job.look(91)), Ranks{2});
}

TEST(NodesFollower, FiresForARankOfTheOnlyNodeThatItFollows) {
  TwoNodes job(std::chrono::seconds(30), k_parts);
  job.call(0);
  job.call(1);
  job.enter(0);
  job.tell(0, 1);
  static_cast<void>(job.look_again(1));
  job.tell(0, 31);
  EXPECT_EQ(culprits(job.look_again(31)), Ranks{1});
}

// A state without that is of a follower that has all ranks.
TEST(NodesFollower, FiresForRanksWithoutFilesWhereANodeHasTheFolderOfAll) {
  TwoNodes job;
  job.enter(0);
  job.enter(1);
  job.tell(0, 1);
  static_cast<void>(job.look_again(1));
  job.tell(0, 31);
  EXPECT_EQ(culprits(job.look_again(31)), (Ranks{2, 3}));
}

TEST(NodesFollower, NamesASilentNodeOfPartsWhereAllOthersWaitForIt) {
  TwoNodes job(std::chrono::seconds(30), k_parts);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  job.enter(0);
  job.enter(1);
  static_cast<void>(job.look(1));
  for (std::int64_t second = 2; second <= 60; ++second) {
    job.tell(0, second);
    static_cast<void>(job.look_again(second));
  }
  EXPECT_EQ(culprits(job.look_again(60)), (Ranks{2, 3}));
}

TEST(NodesFollower, AddsWhatTheRanksOfAllNodesDid) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (int call = 0; call < 3; ++call) {
      job.call(rank);
    }
  }
  const JobView& view = job.look(1);
  EXPECT_EQ(view.state, LiveState::running);
  ASSERT_EQ(view.ranks.size(), 4U);
  EXPECT_EQ(view.ranks[3].sums.calls, 3);
  EXPECT_EQ(view.ranks[3].state, LiveRankState::computing);
  ASSERT_EQ(view.ops.size(), 1U);
  EXPECT_EQ(view.ops[0].kind, CommKind::all_reduce);
  EXPECT_EQ(view.ops[0].axis, Axis::world);
  EXPECT_EQ(view.ops[0].group_size, 4);
  EXPECT_EQ(view.totals.calls, 12);
  EXPECT_EQ(view.totals.message, Bytes{12 * 32});
  EXPECT_EQ(view.totals.wire, Bytes{12 * 48});  // 2 * 3/4 of 32 bytes
  EXPECT_EQ(view.ops[0].durations.total(), 12U);
  EXPECT_TRUE(view.alerts.empty());
}

TEST(NodesFollower, NamesTheRankOfAnotherNodeThatIsMissing) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  for (const std::int64_t rank : {0, 1, 3}) {
    job.enter(rank);
  }
  EXPECT_TRUE(job.look(1).alerts.empty());
  EXPECT_TRUE(job.look(30).alerts.empty());  // 29 s
  const JobView& view = job.look(31);
  ASSERT_EQ(view.alerts.size(), 1U);
  EXPECT_EQ(view.alerts[0].verdict, HangVerdict::missing);
  EXPECT_EQ(culprits(view), Ranks{2});
  EXPECT_EQ(view.alerts[0].waiting, 3);
  EXPECT_EQ(view.ranks[2].state, LiveRankState::computing);
  EXPECT_EQ(view.ranks[3].state, LiveRankState::stuck);
  ASSERT_TRUE(view.ranks[3].call);
  EXPECT_EQ(view.ranks[3].call->number, 2);
  job.enter(2);
  EXPECT_TRUE(job.look(32).alerts.empty());
}

TEST(NodesFollower, KnowsOfNoPauseWhereNoneWasAnnounced) {
  TwoNodes job;
  job.enter(0);
  job.tell(0, 1);
  job.look_again(1);
  job.tell(1, 7205);  // a later moment
  EXPECT_EQ(job.look_again(5).hang.pause_left.count(), 0);
}

TEST(NodesFollower, WaitsForTheEndOfAPauseThatARankAnnounced) {
  TwoNodes job;
  for (const std::int64_t rank : {0, 1, 3}) {
    job.enter(rank);
  }
  job.of(2).rank(2).announce_pause(60);
  job.look(1);
  EXPECT_TRUE(job.look(51).alerts.empty());
  EXPECT_TRUE(job.look_again(60).alerts.empty());
  EXPECT_TRUE(job.look(90).alerts.empty());  // 30 s after the pause, which was seen at 1, are not over
  EXPECT_EQ(job.look(91).alerts.size(), 1U);
}

TEST(NodesFollower, NamesTheRankOfAnotherNodeThatAskedForSomethingElse) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
    job.enter(rank, rank == 3 ? 16 : 8);
  }
  static_cast<void>(job.look(1));
  const JobView& view = job.look(4);  // a tenth of 30 s is enough: it is beyond doubt
  ASSERT_EQ(view.alerts.size(), 1U);
  EXPECT_EQ(view.alerts[0].verdict, HangVerdict::mismatch);
  EXPECT_EQ(culprits(view), Ranks{3});
}

// What its ranks do is not known then: they are named where all others wait for them, as those without files
// are.
// Nothing else moves, so it is no pause that has ended; the alert is due 30 s after the last call all the
// same.
TEST(NodesFollower, TakesAStateThatComesLateForNoMovement) {
  TwoNodes job(std::nullopt);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  job.enter(0);
  for (const std::int64_t second : {0, 5, 10, 15, 20}) {
    EXPECT_EQ(culprits(job.look(second)), Ranks{});
  }
  job.tell(1, 7200 + 25);
  job.tell(0, 25);  // it says what was at 25 s, and comes at 28 s
  EXPECT_EQ(culprits(job.look_again(28)), Ranks{});
  EXPECT_EQ(culprits(job.look(31)), (Ranks{1, 2, 3}));
}

// A healthy job, of which one node tells an older moment: it is not known whether that one stands still.
TEST(NodesFollower, TakesAnOlderStateForNoStandstill) {
  TwoNodes job;
  const auto step = [&] {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      job.call(rank);
    }
  };
  step();
  static_cast<void>(job.look(0));
  step();
  job.enter(2);
  job.enter(3);
  job.tell(1, 7210);
  for (std::int64_t second = 10; second < 14; ++second) {
    EXPECT_EQ(culprits(job.look_again(second)), Ranks{});
    EXPECT_LT(job.look_again(second).hang.still_for, k_second);
  }
}

TEST(NodesFollower, EndsNothingWhileANodeIsSilent) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  static_cast<void>(job.look(1));
  job.of(0).close();
  for (std::int64_t second = 2; second < 60; ++second) {
    job.tell(0, second);
    static_cast<void>(job.look_again(second));
  }
  EXPECT_EQ(job.look_again(60).state, LiveState::unknown);
}

TEST(NodesFollower, TakesAnOldStateForASilentNode) {
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  const test_support::PlannedCluster job(2);
  NodeState old = job.state(0, 1);
  old.age = std::chrono::minutes(5);
  news->emplace_back("a", std::move(old));
  news->emplace_back("b", job.state(1, 1));
  all.poll(at(0));
  EXPECT_EQ(all.view().error, "1 of 2 nodes is silent: n0");
  EXPECT_EQ(all.view().ranks[0].state, LiveRankState::unknown);
  ASSERT_TRUE(all.view().nodes);
  EXPECT_EQ(all.view().nodes->told, 1);
  EXPECT_EQ(all.view().nodes->silent, 1);
}

TEST(NodesFollower, NamesASilentNodeWhereAllOthersWaitForIt) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  job.enter(0);
  static_cast<void>(job.look(1));
  const auto pass = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t second = from; second < to; ++second) {
      job.tell(0, second);
      static_cast<void>(job.look_again(second));
    }
    job.tell(0, to);
    return culprits(job.look_again(to));
  };
  EXPECT_EQ(pass(2, 60), Ranks{1});
  job.enter(1);
  EXPECT_EQ(pass(61, 120), (Ranks{2, 3}));
  const JobView& view = job.look_again(120);
  EXPECT_EQ(view.error, "1 of 2 nodes is silent: b");
  EXPECT_EQ(view.ranks[2].state, LiveRankState::unknown);
  EXPECT_EQ(view.ranks[2].error, "b has said nothing for 119 s");
}

TEST(NodesFollower, GoesOnWithWhatItHasWhereAStateCannotBeRead) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  EXPECT_EQ(job.look(1).totals.calls, 4);
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  news->emplace_back("a", job.state(0, 2));
  news->emplace_back("b", failure("HTTP 401"));
  all.poll(at(2));
  EXPECT_EQ(all.view().totals.calls, 2);
  EXPECT_EQ(all.view().error, "b: HTTP 401");
}

TEST(NodesFollower, EndsWhenAllNodesHaveEnded) {
  TwoNodes job;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.call(rank);
  }
  job.of(0).close();
  EXPECT_EQ(job.look(1).state, LiveState::running);
  job.of(2).close();
  const JobView& view = job.look(2);
  EXPECT_EQ(view.state, LiveState::ended);
  EXPECT_EQ(view.ranks[0].state, LiveRankState::finished);
}

// Other machines than rank 0's have the files of their ranks and nothing else.
TEST(NodesFollower, FollowsAFolderThatHasNoManifest) {
  const test_support::ScratchDirectory directory;
  FollowedRanks job(directory.path() / "run", 4);
  FolderFollower follower(directory.path() / "run");
  std::filesystem::remove(directory.path() / "run" / "manifest.json");
  EXPECT_TRUE(follower.poll(at(1)));
  EXPECT_EQ(follower.view().generation, 0);
  job.call(2);
  EXPECT_TRUE(follower.poll(at(2)));
  job.call(3);
  EXPECT_TRUE(follower.poll(at(3)));
  EXPECT_EQ(follower.view().generation, 1);
  ASSERT_EQ(follower.view().ranks.size(), 2U);
  EXPECT_EQ(follower.view().ranks[0].rank, Rank{2});
  EXPECT_EQ(follower.view().totals.calls, 2);
  ASSERT_EQ(follower.view().ops.size(), 1U);
  EXPECT_EQ(follower.view().ops[0].axis, Axis::unknown);  // how many ranks there are is not known here
}

TEST(NodesFollower, NamesOneOfAThousandRanks) {
  test_support::PlannedCluster job(128);
  auto news = std::make_shared<PlantedSource::News>();
  NodesFollower all(std::make_unique<PlantedSource>(news), "job", {});
  std::int64_t number = 0;
  const auto look = [&](std::int64_t second) {
    ++number;
    for (std::int64_t node = 0; node < 128; ++node) {
      const NodeState state = job.state(node, number);
      news->emplace_back(state.node, node_state_from(node_state_text(state)));
    }
    all.poll(at(second));
    return culprits(all.view());
  };
  EXPECT_EQ(look(0), Ranks{});
  job.pass(std::chrono::seconds(5));
  EXPECT_EQ(look(5), Ranks{});
  EXPECT_EQ(all.view().ranks.size(), 1024U);
  job.stop(Rank{515});
  job.pass(std::chrono::seconds(29));
  EXPECT_EQ(look(34), Ranks{});
  job.pass(std::chrono::seconds(1));
  EXPECT_EQ(look(35), Ranks{515});
  const LiveAlert& alert = all.view().alerts[0];
  EXPECT_EQ(alert.verdict, HangVerdict::missing);
  EXPECT_EQ(alert.waiting, 1023);
}

TEST(NodeState, SaysThatItIsAPart) {
  TwoNodes job(std::nullopt, k_parts);
  job.call(0);
  nlohmann::json text = nlohmann::json::parse(node_state_text(job.state(0, 1)));
  EXPECT_EQ(text["partial"], true);
  EXPECT_TRUE(node_state_from(text.dump())->view.hang.is_part);
  text.erase("partial");
  EXPECT_FALSE(node_state_from(text.dump())->view.hang.is_part);
}

// Older recordings, and NCCL where its number is not known.
TEST(NodeState, HasCommunicatorsWithoutNumbers) {
  NodeState state;
  state.view.hang.job.channels.push_back({.members = {Rank{0}, Rank{3}}, .communicator = k_no_communicator});
  const Result<NodeState> read = node_state_from(node_state_text(state));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->view.hang.job.channels, state.view.hang.job.channels);
}

TEST(NodeState, OfAnotherFormIsRefused) {
  TwoNodes job;
  job.call(0);
  job.enter(1);
  using namespace nlohmann::literals;
  const nlohmann::json good = nlohmann::json::parse(node_state_text(job.state(0, 1)));
  const auto error_of = [&](const char* place, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(place)] = value;
    const Result<NodeState> read = node_state_from(bad.dump());
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(error_of("/number", 1), "");
  EXPECT_EQ(error_of("/schema", "other"), "no state of a node: its \"schema\" is not \"commlens.node/1\"");
  EXPECT_EQ(error_of("/number", -1), "\"number\" must be an integer from 0 to 9223372036854775807");
  EXPECT_EQ(error_of("/ranks/0/still_ns", INT64_MAX),
            "ranks \"still_ns\" must be an integer from 0 to 72057594037927936");
  EXPECT_EQ(error_of("/job", "fine"), "\"job\" is \"fine\", which is unknown");
  EXPECT_EQ(error_of("/channels/0/members/0/1", 2147483647), "channels has members that cannot be");
  EXPECT_EQ(error_of("/channels/0/members", nlohmann::json::array()),
            "channels has a channel without its members");
  EXPECT_EQ(error_of("/channels/0/kind", "none"), "channels has a channel of unknown kind");
  EXPECT_EQ(error_of("/ranks/0/calls/entered_by_channel/0/0", 1), "calls has a channel that there is not");
  EXPECT_EQ(error_of("/ranks/1/calls/open/0/channel", 1), "call \"channel\" must be an integer from 0 to 0");
  EXPECT_EQ(error_of("/ranks/1/calls/open/0/input", std::int64_t{1} << 57),
            "call \"input\" must be an integer from 0 to 72057594037927936");
  EXPECT_EQ(error_of("/ranks/1/calls/open/0/part", "send"), "call \"part\" does not go with its channel");
  nlohmann::json many = nlohmann::json::array();
  many.insert(many.end(), 513, good["/ranks/1/calls/open/0"_json_pointer]);
  EXPECT_EQ(error_of("/ranks/1/calls/open", many), "calls has too many calls under way");
  EXPECT_EQ(error_of("/ranks/1/rank", 131'073), "ranks \"rank\" must be an integer from 0 to 131072");
  EXPECT_EQ(error_of("/ops/0/durations/counts/0/0", 400), "ops has a class of durations that there is not");
  EXPECT_EQ(error_of("/ranks", 3), "\"ranks\" must be an array");
  EXPECT_FALSE(node_state_from("{"));
  EXPECT_FALSE(node_state_from("[]"));
}

TEST(Spool, GivesAStateOnceUntilItIsWrittenAgain) {
  const test_support::ScratchDirectory directory;
  TwoNodes job;
  job.call(0);
  SpoolSource source(directory.path());
  Ranks numbers;
  const auto look = [&] {
    source.look([&](const std::string& place, const Result<NodeState>& state) {
      EXPECT_EQ(place, (directory.path() / "a.state.json").string());
      numbers.push_back(state ? state->number : -1);
    });
    return numbers;
  };
  EXPECT_FALSE(has_node_states(directory.path()));
  EXPECT_EQ(look(), Ranks{});
  EXPECT_FALSE(make_spool(directory.path() / "none" / "states"));
  write_node_state(directory.path(), job.state(0, 1));
  EXPECT_TRUE(has_node_states(directory.path()));
  EXPECT_EQ(look(), Ranks{1});
  EXPECT_EQ(look(), Ranks{1});
  write_node_state(directory.path(), job.state(0, 2));
  EXPECT_EQ(look(), (Ranks{1, 2}));
}

TEST(Spool, OpensRegularFilesAlone) {
  const test_support::ScratchDirectory directory;
  std::filesystem::create_symlink("/etc/hostname", directory.path() / "a.state.json");
  SpoolSource source(directory.path());
  std::vector<std::string> errors;
  source.look([&](const std::string&, const Result<NodeState>& state) {
    errors.push_back(state ? "read" : state.error().message);
  });
  EXPECT_EQ(errors, std::vector<std::string>{"Too many levels of symbolic links"});
}

TEST(Spool, NamesOfNodesLeadNowhereElse) {
  EXPECT_EQ(state_file_name("n17.example.org"), "n17.example.org.state.json");
  EXPECT_EQ(state_file_name("../x/y"), "_._x_y.state.json");
  EXPECT_EQ(state_file_name(""), "_.state.json");
}

}  // namespace
}  // namespace commlens
