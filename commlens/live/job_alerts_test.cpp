// Alerts by time, on views made by hand.
#include "commlens/live/job_alerts.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

PollTime poll_at(std::int64_t second) {
  return {seconds(5000 + second), 1'700'000'000'000'000'000 + second * 1'000'000'000};
}

/// A job of which a test says what each rank does in a second.
class Job {
 public:
  explicit Job(std::int64_t ranks) {
    view_.state = LiveState::running;
    view_.generation = 1;
    view_.totals.calls = 1;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      LiveRank& row = view_.ranks.emplace_back();
      row.rank = Rank{rank};
      row.process = RankProcess{"n" + std::to_string(rank / 2), 100 + rank, 1, "a.out", "", {}};
      row.sums.calls = 512;
      row.late_score = 0;
    }
  }
  LiveRank& rank(std::int64_t number) { return view_.ranks[static_cast<std::size_t>(number)]; }
  LiveOp& op() {
    if (view_.ops.empty()) {
      LiveOp& row = view_.ops.emplace_back();
      row.kind = CommKind::all_reduce;
      row.axis = Axis::dp;
      row.group_size = 2;
    }
    return view_.ops.front();
  }
  JobView& view() { return view_; }

  /// One second in which the ranks spend so much in calls.
  void second(const std::vector<milliseconds>& in_calls) {
    for (std::size_t row = 0; row < in_calls.size(); ++row) {
      view_.ranks[row].in_calls += in_calls[row];
      view_.ranks[row].between_calls += milliseconds(1000) - in_calls[row];
    }
  }
  /// Looks at the next second; the alerts' ids.
  std::vector<std::string> look() {
    view_.alerts.clear();
    view_.alerts_fired = 0;
    alerts_.look(view_, poll_at(now_++));
    std::vector<std::string> ids;
    for (const LiveAlert& alert : view_.alerts) {
      ids.push_back(alert.id);
    }
    return ids;
  }
  /// How many seconds pass with nothing to tell, at most `most`.
  std::int64_t quiet(const std::vector<milliseconds>& in_calls, std::int64_t most) {
    for (std::int64_t passed = 0; passed < most; ++passed) {
      second(in_calls);
      if (!look().empty()) {
        return passed;
      }
    }
    return most;
  }

 private:
  JobView view_;
  JobAlerts alerts_;
  std::int64_t now_ = 0;
};

using Ids = std::vector<std::string>;

// The others spend 800 ms of a second in calls, rank 2 300: 50 % of their time more.
const std::vector<milliseconds> k_one_is_slow = {milliseconds(800), milliseconds(810), milliseconds(300),
                                                 milliseconds(790)};

TEST(StragglerAlert, ComesAfterTwoWindowsAndNamesTheRank) {
  Job job(4);
  job.rank(2).late_score = 0.94;
  job.look();
  EXPECT_EQ(job.quiet(k_one_is_slow, 1000), 119);  // two windows of 60 s end with the 120th
  ASSERT_EQ(job.view().alerts.size(), 1U);
  const LiveAlert& alert = job.view().alerts[0];
  EXPECT_EQ(alert.id, "straggler-1");
  EXPECT_EQ(alert.kind, "straggler");
  EXPECT_EQ(alert.culprits, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(alert.text,
            "slow by itself: rank 2 (host n1) in at least 94 % of its latest blocks of calls, which costs "
            "the others 50 % of "
            "their time");
  EXPECT_EQ(job.view().alerts_fired, 1);
}

TEST(StragglerAlert, IsOverAfterAWindowWithoutIt) {
  Job job(4);
  job.rank(2).late_score = 0.94;
  job.look();
  ASSERT_EQ(job.quiet(k_one_is_slow, 1000), 119);
  job.rank(2).late_score = 0.3;
  std::int64_t held = 0;
  do {
    job.second(k_one_is_slow);
    ++held;
  } while (job.look() == Ids{"straggler-1"});
  EXPECT_EQ(held, 60);
  EXPECT_EQ(job.view().alerts_fired, 1);
}

TEST(StragglerAlert, IsNoneWhereOthersLoseLittle) {
  Job job(4);
  job.rank(2).late_score = 1;
  job.look();
  // 9 % of their time.
  EXPECT_EQ(job.quiet({milliseconds(500), milliseconds(500), milliseconds(410), milliseconds(500)}, 600),
            600);
}

TEST(StragglerAlert, IsNoneWhereTheScoreFallsNowAndThen) {
  Job job(4);
  job.look();
  for (std::int64_t minute = 0; minute < 10; ++minute) {
    job.rank(2).late_score = 0.94;
    EXPECT_EQ(job.quiet(k_one_is_slow, 50), 50);
    job.rank(2).late_score = 0.4;
    EXPECT_EQ(job.quiet(k_one_is_slow, 10), 10);
  }
}

TEST(StragglerAlert, WaitsForFiveHundredAndTwelveCallsOfARank) {
  Job job(4);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.rank(rank).sums.calls = 511;
  }
  job.rank(2).late_score = 1;
  job.look();
  EXPECT_EQ(job.quiet(k_one_is_slow, 600), 600);
  job.rank(0).sums.calls = 512;
  EXPECT_EQ(job.quiet(k_one_is_slow, 600), 120);  // the first of them begins the window
}

TEST(StragglerAlert, WaitsForEightIterations) {
  Job job(4);
  job.rank(2).late_score = 1;
  job.view().steps.iteration = 7;
  job.view().steps.completed = 7;
  job.look();
  EXPECT_EQ(job.quiet(k_one_is_slow, 600), 600);
  job.view().steps.completed = 8;
  EXPECT_EQ(job.quiet(k_one_is_slow, 600), 120);  // the first of them begins the window
}

TEST(StragglerAlert, NamesThreeAndCountsTheRest) {
  Job job(16);
  std::vector<milliseconds> in_calls(16, milliseconds(800));
  for (std::int64_t rank = 0; rank < 5; ++rank) {
    job.rank(rank).late_score = 0.5;
    in_calls[static_cast<std::size_t>(rank)] = milliseconds(600);
  }
  job.look();
  EXPECT_EQ(job.quiet(in_calls, 1000), 119);
  const std::string text = job.view().alerts[0].text;
  EXPECT_EQ(job.view().alerts[0].culprits.size(), 5U);
  EXPECT_NE(text.find("rank 2 (host n1)"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 3"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; and 2 more")) << text;
}

/// A second of one iteration of two ranks, with first calls of so long each and 100 later ones of 1 ms.
void iterate(Job& job, std::int64_t first, milliseconds each) {
  LiveOp& op = job.op();
  op.first_calls += first;
  op.first_time += first * each;
  op.sums.calls += first + 100;
  op.sums.time += first * each + 100 * milliseconds(1);
  ++job.view().steps.iteration;
  ++job.view().steps.completed;
  job.second({milliseconds(500), milliseconds(500)});
}

TEST(ColdAlert, ComesWithTheThirdIterationInARow) {
  Job job(2);
  job.view().steps.iteration = 0;
  iterate(job, 2, milliseconds(300));  // the first iteration
  EXPECT_EQ(job.look(), Ids{});
  iterate(job, 2, milliseconds(150));  // 2 x 149 ms of 2 s in excess: 15 %
  EXPECT_EQ(job.look(), Ids{});
  iterate(job, 2, milliseconds(150));
  EXPECT_EQ(job.look(), Ids{});
  iterate(job, 2, milliseconds(150));
  EXPECT_EQ(job.look(), Ids{"cold-1"});
  EXPECT_EQ(job.view().alerts[0].text,
            "communicators are made again and again: 2 first calls on new ones in iteration 3 took 15 % of "
            "the time, most in all_reduce along dp (150 ms each, later ones 1.00 ms)");
  for (std::int64_t clean = 0; clean < 2; ++clean) {
    iterate(job, 0, {});
    EXPECT_EQ(job.look(), Ids{"cold-1"});
  }
  iterate(job, 0, {});
  EXPECT_EQ(job.look(), Ids{});
}

TEST(ColdAlert, IsNoneWhereFirstCallsAreAsFastOrFew) {
  Job job(2);
  job.view().steps.iteration = 0;
  for (std::int64_t iteration = 0; iteration < 20; ++iteration) {
    iterate(job, 30, milliseconds(9));  // not ten times 1 ms
    EXPECT_EQ(job.look(), Ids{});
  }
  for (std::int64_t iteration = 0; iteration < 20; ++iteration) {
    iterate(job, 2, milliseconds(90));  // 9 % of 2 s
    EXPECT_EQ(job.look(), Ids{});
  }
  for (std::int64_t iteration = 0; iteration < 20; ++iteration) {
    iterate(job, iteration % 3 == 0 ? 0 : 2, milliseconds(500));  // never three in a row
    EXPECT_EQ(job.look(), Ids{});
  }
}

TEST(ColdAlert, WithoutIterationsComesAfterAMinuteAndThreePeriods) {
  Job job(2);
  job.view().steps.iteration = k_unknown_iteration;
  std::int64_t quiet = 0;
  const auto second = [&] {
    iterate(job, 2, milliseconds(150));
    job.view().steps.iteration = k_unknown_iteration;
    return job.look();
  };
  while (second().empty()) {
    ++quiet;
  }
  EXPECT_EQ(quiet, 90);
}

TEST(LostAlert, HoldsUntilNothingWasLostForAMinute) {
  Job job(2);
  job.view().lost = {{"the disk was full", 5}};  // before it was followed
  job.rank(1).lost_records = 5;
  EXPECT_EQ(job.look(), Ids{});
  EXPECT_EQ(job.look(), Ids{});
  job.view().lost = {{"late", 2}, {"the disk was full", 7}};
  job.rank(1).lost_records = 9;
  EXPECT_EQ(job.look(), Ids{"lost-1"});
  EXPECT_EQ(job.view().alerts[0].text,
            "calls of rank 1 (host n0) are lost, so far 2 × late, 7 × the disk was full: hangs of these "
            "ranks are not found any more");
  std::int64_t held = 1;
  while (job.look() == Ids{"lost-1"}) {
    ++held;
  }
  EXPECT_EQ(held, 60);
  job.rank(0).lost_records = 1;
  EXPECT_EQ(job.look(), Ids{"lost-2"});
  EXPECT_EQ(job.view().alerts_fired, 2);
  EXPECT_EQ(job.view().alerts[0].culprits, std::vector<Rank>{Rank{0}});
}

TEST(LostAlert, IsNoneForARankThatComesLateWithItsLosses) {
  Job job(2);
  job.look();
  LiveRank& late = job.view().ranks.emplace_back();
  late.rank = Rank{2};
  late.lost_records = 70;
  EXPECT_EQ(job.look(), Ids{});
  job.rank(2).lost_records = 71;
  EXPECT_EQ(job.look(), Ids{"lost-1"});
}

TEST(StragglerAlert, IsFoundWhereStepsAreLongerThanAWindow) {
  Job job(4);
  job.rank(2).late_score = 0.94;
  job.look();
  // The calls of 100 s end together.
  std::int64_t bursts = 0;
  std::vector<std::string> found;
  while (found.empty() && bursts < 10) {
    for (std::int64_t passed = 0; passed < 99 && found.empty(); ++passed) {
      found = job.look();
    }
    for (std::int64_t passed = 0; passed < 100; ++passed) {
      job.second(k_one_is_slow);
    }
    ++bursts;
    found = job.look();
  }
  EXPECT_EQ(found, Ids{"straggler-1"});
  EXPECT_EQ(bursts, 2);
}

TEST(ColdAlert, TakesWhatComesBeforeTheFirstMarkForTheStart) {
  Job job(2);
  job.view().steps.iteration = k_unknown_iteration;
  for (std::int64_t second = 0; second < 85; ++second) {
    iterate(job, 2, milliseconds(150));
    job.view().steps.iteration = k_unknown_iteration;
    EXPECT_EQ(job.look(), Ids{});
  }
  job.view().steps = {};
  job.view().steps.iteration = 0;
  iterate(job, 2, milliseconds(300));  // the first iteration
  EXPECT_EQ(job.look(), Ids{});
  for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
    iterate(job, 2, milliseconds(150));
    EXPECT_EQ(job.look(), Ids{});
  }
  iterate(job, 2, milliseconds(150));
  EXPECT_EQ(job.look(), Ids{"cold-1"});
}

TEST(JobAlerts, SurviveTimesThatCannotBe) {
  Job job(2);
  job.view().steps.iteration = 0;
  for (std::int64_t look = 0; look < 200; ++look) {
    ++job.view().steps.iteration;
    ++job.view().steps.completed;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      job.rank(rank).in_calls = nanoseconds(look % 2 == 0 ? 0 : std::int64_t{1} << 56);
      job.rank(rank).between_calls = nanoseconds(look % 3 == 0 ? 0 : std::int64_t{1} << 56);
      job.rank(rank).late_score = 1;
      job.rank(rank).lost_records = INT64_MAX;
    }
    job.op().first_calls = look % 2 == 0 ? 1 : INT64_MAX;
    job.op().first_time = nanoseconds(look % 2 == 0 ? 0 : INT64_MAX);
    job.op().sums.time = nanoseconds(INT64_MAX);
    job.op().sums.calls = INT64_MAX;
    job.look();
  }
  EXPECT_LE(job.view().alerts.size(), 3U);
}

TEST(JobAlerts, OfAJobThatHasEndedOrWasReplacedAreOver) {
  Job job(2);
  job.look();
  job.rank(0).lost_records = 2;
  EXPECT_EQ(job.look(), Ids{"lost-1"});
  job.view().state = LiveState::ended;
  EXPECT_EQ(job.look(), Ids{});
  job.view().state = LiveState::running;
  job.view().generation = 2;
  EXPECT_EQ(job.look(), Ids{});
  EXPECT_EQ(job.look(), Ids{});
}

}  // namespace
}  // namespace commlens
