// Alerts in words.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/watch.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/trace/rank_process.hpp"

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

/// A hang of ranks that are missing, two on each node, beside one that waits for them.
JobView view_of_missing(std::int64_t missing) {
  JobView view;
  view.state = LiveState::running;
  view.hang.is_confirmed = true;
  view.hang.finding.verdict = HangVerdict::missing;
  view.hang.finding.waiting = 1;
  for (std::int64_t rank = 0; rank <= missing; ++rank) {
    RankProgress progress{.state = {.rank = Rank{rank}, .process = {}, .boot = {}}};
    progress.state.process = RankProcess{.host = fmt::format("n{}", rank / 2), .pid = 100 + rank};
    view.hang.job.ranks.push_back(progress);
    view.hang.processes.push_back(ProcessState::sleeping);
    if (rank > 0) {
      view.hang.finding.culprits.push_back({.rank = static_cast<std::size_t>(rank)});
    }
    view.ranks.push_back({.rank = Rank{rank}, .process = progress.state.process});
  }
  view.hang.graph.ranks.resize(view.hang.job.ranks.size());
  view.alerts.push_back({.id = "hang-1", .kind = "hang", .text = {}, .culprits = {}});
  return view;
}
std::string words_of(const JobView& view) { return alert_text(view, view.alerts[0]); }

TEST(AlertPlaces, NameTheHostOfEachCulprit) {
  EXPECT_EQ(words_of(view_of_missing(1)), "missing: 1 rank waits for rank 1 (host n0)");
  EXPECT_EQ(words_of(view_of_missing(3)), "missing: 1 rank waits for ranks 1 (host n0), 2-3 (host n1)");
}

TEST(AlertPlaces, AreAFewOfMany) {
  EXPECT_EQ(words_of(view_of_missing(12)),
            "missing: 1 rank waits for ranks 1 (host n0), 2-3 (host n1), 4-5 (host n2) and 7 more");
}

TEST(AlertPlaces, SayThatAProcessIsStoppedOrGone) {
  JobView view = view_of_missing(3);
  view.hang.processes[2] = ProcessState::stopped;
  view.hang.processes[3] = ProcessState::gone;
  EXPECT_EQ(words_of(view),
            "missing: 1 rank waits for ranks 1 (host n0), 2 (host n1, stopped), 3 (host n1, gone)");
}

TEST(AlertPlaces, SayThatANodeIsSilent) {
  JobView view = view_of_missing(3);
  view.ranks[2].is_silent = view.ranks[3].is_silent = true;
  view.hang.job.ranks[2].state.is_recorded = view.hang.job.ranks[3].state.is_recorded = false;
  EXPECT_EQ(words_of(view), "missing: 1 rank waits for ranks 1 (host n0), 2-3 (host n1, silent)");
  const std::string screen = watch_text(view, {});
  EXPECT_NE(screen.find("rank 2: its node is silent; host n1, pid 102 (sleeping)"), std::string::npos)
      << screen;
  EXPECT_EQ(screen.find("not recorded"), std::string::npos) << screen;
}

TEST(WatchWords, CountOneAsOne) {
  JobView view;
  view.name = "t";
  view.generation = 1;
  view.state = LiveState::running;
  view.totals.calls = 1;
  view.watcher.unread = 1;
  view.ranks.push_back({.rank = Rank{0}});
  view.prediction = LivePrediction{.source = "p", .iteration = 3, .iterations = 1, .exact = 1};
  const std::string one = watch_text(view, {});
  EXPECT_NE(one.find("t · running · 1 rank · 1 call, 0 B\n"), std::string::npos) << one;
  EXPECT_NE(one.find("\n1 iteration, the last one 3: 1 call as predicted, 0 of"), std::string::npos) << one;
  EXPECT_NE(one.find("\n1 record is written and cannot be read yet\n"), std::string::npos) << one;
  view.ranks.push_back({.rank = Rank{1}});
  view.totals.calls = 2;
  EXPECT_NE(watch_text(view, {}).find(" · 2 ranks · 2 calls, "), std::string::npos) << watch_text(view, {});
  const std::string cut = watch_text(view, {.rank = {}, .style = {}, .most_rows = 1});
  EXPECT_NE(cut.find("… and 1 rank more\n"), std::string::npos) << cut;
}

TEST_F(AlertWords, SayThatRanksWaitForEachOther) {
  EXPECT_EQ(words(true), fmt::format("deadlock: ranks 0-1 (host {}) wait for each other; nothing of this "
                                     "moved for 20.0 s",
                                     own_host()));
}

TEST_F(AlertWords, DoubtACircleOfRequests) {
  EXPECT_EQ(words(false),
            fmt::format("deadlock: ranks 0-1 (host {}) wait for each other, unless one with requests alone "
                        "computes; nothing of this moved for 20.0 s",
                        own_host()));
}

}  // namespace
}  // namespace commlens
