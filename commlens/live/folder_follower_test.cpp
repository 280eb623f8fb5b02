#include "commlens/live/folder_follower.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "commlens/live/follower_test_support.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test_support::at;
using test_support::content_of;
using test_support::FollowedRanks;
using test_support::FollowerTest;
using test_support::ScratchDirectory;

class Follower : public FollowerTest {};

TEST_F(Follower, CountsEachCallOnceWhenItEnds) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  job.call(0);
  EXPECT_EQ(poll(follower).totals.calls, 1);
  const Recorder::Slot slot = job.enter(0);
  EXPECT_EQ(poll(follower).totals.calls, 1);
  EXPECT_EQ(follower.view().ranks[0].open_calls, 1);
  job.call(1, 100);
  EXPECT_EQ(poll(follower).totals.calls, 2);
  job.rank(0).finish(slot);
  const JobView& view = poll(follower);
  EXPECT_EQ(view.totals.calls, 3);
  EXPECT_EQ(view.totals.message, Bytes{2 * 32 + 400});
  EXPECT_EQ(view.totals.wire, Bytes{2 * 32 + 400});  // two ranks: 2 m (n-1)/n = m
  ASSERT_EQ(view.ops.size(), 1U);
  EXPECT_EQ(view.ops[0].axis, Axis::world);
  EXPECT_EQ(view.ops[0].group_size, 2);
  EXPECT_EQ(view.ops[0].smallest, Bytes{32});
  EXPECT_EQ(view.ops[0].largest, Bytes{400});
  EXPECT_EQ(view.ops[0].durations.total(), 3U);
  EXPECT_EQ(view.ranks[0].sums.calls, 2);
  EXPECT_EQ(view.ranks[1].sums.calls, 1);
  EXPECT_TRUE(view.lost.empty());
}

TEST_F(Follower, SeesTheEnd) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  job.call(0);
  job.call(1);
  poll(follower);
  EXPECT_EQ(follower.view().state, LiveState::running);  // this process
  job.close();
  poll(follower);
  EXPECT_EQ(poll(follower).state, LiveState::ended);
  finish_recording(path_);
  EXPECT_EQ(poll(follower).state, LiveState::ended);
  EXPECT_EQ(follower.view().totals.calls, 2);
  EXPECT_EQ(follower.view().generation, 1);
  EXPECT_EQ(follower.view().ranks[1].state, LiveRankState::finished);
}

TEST_F(Follower, WaitsForTheFolderAndForRanks) {
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).state, LiveState::absent);
  fs::create_directory(path_);
  EXPECT_EQ(poll(follower).state, LiveState::absent);
  std::ofstream(path_ / "manifest.json").close();
  EXPECT_EQ(poll(follower).state, LiveState::absent);
  fs::remove_all(path_);
  FollowedRanks job(path_);
  EXPECT_EQ(poll(follower).state, LiveState::absent);
  EXPECT_EQ(follower.view().ranks.size(), 2U);
  EXPECT_EQ(follower.view().ranks[1].state, LiveRankState::absent);
  job.call(1);
  EXPECT_EQ(poll(follower).state, LiveState::running);
  EXPECT_EQ(follower.view().ranks[1].state, LiveRankState::computing);
  EXPECT_EQ(follower.view().ranks[0].state, LiveRankState::absent);
}

TEST_F(Follower, NoticesThatTheFolderWentAway) {
  auto job = std::make_unique<FollowedRanks>(path_);
  FolderFollower follower(path_);
  job->call(0);
  poll(follower);
  fs::remove_all(path_);
  EXPECT_EQ(poll(follower).state, LiveState::removed);
  EXPECT_EQ(follower.view().totals.calls, 1);  // what was seen remains
  job.reset();
  FollowedRanks next(path_);
  next.call(0);
  next.call(0);
  poll(follower);
  EXPECT_EQ(poll(follower).generation, 2);
  EXPECT_EQ(follower.view().totals.calls, 2);
}

TEST_F(Follower, NoticesAnotherRecordingInTheSameFiles) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  for (int call = 0; call < 5; ++call) {
    job.call(0);
  }
  poll(follower);
  job.close();  // and its files are opened anew
  job.call(0);
  poll(follower);
  EXPECT_EQ(poll(follower).generation, 2);
  EXPECT_EQ(follower.view().totals.calls, 1);
}

// As a file system of a network may show them: later pages first.
TEST_F(Follower, PassesNoRecordThatIsNotThereYet) {
  {
    FollowedRanks job(path_, 1);
    for (int call = 0; call < 1000; ++call) {
      job.call(0, 1 + call % 3);
    }
    job.close();
  }
  const std::string whole = content_of(path_ / "rank-0.bin");
  const std::string tables = content_of(path_ / "rank-0.jsonl");
  std::string part = whole;
  std::fill(part.begin() + 8192, part.begin() + 12288, '\0');
  std::ofstream(path_ / "rank-0.bin", std::ios::binary) << part;
  const std::string open_tables = tables.substr(0, tables.rfind("{\"closed\""));
  std::ofstream(path_ / "rank-0.jsonl", std::ios::binary) << open_tables;
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).totals.calls, (8192 - 64) / 32);
  EXPECT_EQ(follower.view().watcher.unread, 1000 - (8192 - 64) / 32);
  EXPECT_EQ(poll(follower, 1).totals.calls, (8192 - 64) / 32);
  std::ofstream(path_ / "rank-0.bin", std::ios::binary | std::ios::in) << whole;
  EXPECT_EQ(poll(follower, 2).totals.calls, 1000);
  EXPECT_TRUE(follower.view().lost.empty());
  EXPECT_EQ(follower.view().watcher.unread, 0);
}

TEST_F(Follower, PassesALostPageAfterAMinute) {
  {
    FollowedRanks job(path_, 1);
    for (int call = 0; call < 1000; ++call) {
      job.call(0);
    }
    job.close();
  }
  std::string part = content_of(path_ / "rank-0.bin");
  std::fill(part.begin() + 8192, part.begin() + 12288, '\0');
  std::ofstream(path_ / "rank-0.bin", std::ios::binary) << part;
  const std::string tables = content_of(path_ / "rank-0.jsonl");
  std::ofstream(path_ / "rank-0.jsonl", std::ios::binary) << tables.substr(0, tables.rfind("{\"closed\""));
  FolderFollower follower(path_);
  poll(follower, 0);
  EXPECT_EQ(poll(follower, 59).watcher.unread, 1000 - 254);
  EXPECT_EQ(poll(follower, 60).totals.calls, 1000 - 128);  // 4096 / 32
  EXPECT_EQ(follower.view().lost.at("call lost, record of zeros"), 128);
}

TEST_F(Follower, WaitsForTheRowOfARecord) {
  FollowedRanks job(path_, 1);
  job.call(0, 5);
  job.close();
  const std::string tables = content_of(path_ / "rank-0.jsonl");
  const std::size_t row = tables.find("{\"op\"");
  ASSERT_NE(row, std::string::npos);
  std::ofstream(path_ / "rank-0.jsonl", std::ios::binary) << tables.substr(0, row + 20);
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).totals.calls, 0);
  std::ofstream(path_ / "rank-0.jsonl", std::ios::binary) << tables;
  EXPECT_EQ(poll(follower).totals.calls, 1);
  EXPECT_EQ(follower.view().totals.message, Bytes{20});
}

TEST_F(Follower, CountsWhatACutFileLacks) {
  FollowedRanks job(path_, 1);
  for (int call = 0; call < 10; ++call) {
    job.call(0);
  }
  job.close();
  fs::resize_file(path_ / "rank-0.bin", 64 + 6 * 32 + 5);
  FolderFollower follower(path_, {.hang_after = {}, .is_single = true});
  EXPECT_EQ(poll(follower).totals.calls, 6);
  EXPECT_EQ(follower.view().lost.at("record missing at the end of a stream"), 4);
}

TEST_F(Follower, OpensNothingButRegularFiles) {
  FollowedRanks job(path_);
  job.call(1);
  ASSERT_EQ(mkfifo((path_ / "rank-0.bin").c_str(), 0600), 0);
  FolderFollower follower(path_);
  poll(follower);
  EXPECT_EQ(follower.view().ranks[0].state, LiveRankState::unknown);
  EXPECT_NE(follower.view().ranks[0].error, "");
  EXPECT_EQ(follower.view().ranks[1].sums.calls, 1);
  fs::remove(path_ / "rank-0.bin");
  fs::create_symlink(path_ / "rank-1.bin", path_ / "rank-0.bin");
  FolderFollower another(path_);
  EXPECT_EQ(poll(another).ranks[0].state, LiveRankState::unknown);
}

TEST_F(Follower, RefusesAFileAndATraceThatIsNoRecording) {
  std::ofstream(path_) << "text";
  FolderFollower follower(path_);
  EXPECT_FALSE(follower.poll(at(0)));
}

TEST_F(Follower, FiresWhenNothingHasMovedForLongEnough) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20)});
  job.call(0);
  job.call(1);
  const Recorder::Slot slot = job.enter(0);
  EXPECT_TRUE(poll(follower, 0).alerts.empty());
  EXPECT_EQ(follower.view().hang.finding.verdict, HangVerdict::missing);
  EXPECT_EQ(follower.view().ranks[0].state, LiveRankState::waiting);
  EXPECT_TRUE(poll(follower, 19).alerts.empty());
  ASSERT_EQ(poll(follower, 20).alerts.size(), 1U);
  EXPECT_EQ(follower.view().alerts[0].culprits, std::vector{Rank{1}});
  EXPECT_EQ(follower.view().alerts[0].verdict, HangVerdict::missing);
  EXPECT_EQ(follower.view().ranks[0].state, LiveRankState::stuck);
  EXPECT_EQ(follower.view().ranks[1].state, LiveRankState::computing);
  EXPECT_EQ(follower.view().alerts_fired, 1);
  job.call(1);
  job.rank(0).finish(slot);
  EXPECT_TRUE(poll(follower, 21).alerts.empty());
  EXPECT_EQ(follower.view().alerts_fired, 1);
}

TEST_F(Follower, FiresSoonerWhereCallsDiffer) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(20)});
  job.enter(0, 8);
  job.enter(1, 9);
  EXPECT_TRUE(poll(follower, 0).alerts.empty());
  EXPECT_TRUE(poll(follower, 1).alerts.empty());
  ASSERT_EQ(poll(follower, 2).alerts.size(), 1U);  // a tenth of 20
  EXPECT_EQ(follower.view().alerts[0].verdict, HangVerdict::mismatch);
}

TEST_F(Follower, WaitsLongerWhereTheJobHasPausedBefore) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  Recorder::Slot slot = job.enter(0);
  poll(follower, 0);
  EXPECT_EQ(follower.view().hang.limit, seconds(30));
  poll(follower, 6);
  job.call(1);
  job.rank(0).finish(slot);
  poll(follower, 7);
  EXPECT_EQ(follower.view().hang.limit, seconds(60));  // 10 times 6
  slot = job.enter(0);
  poll(follower, 10);
  EXPECT_TRUE(poll(follower, 69).alerts.empty());
  EXPECT_EQ(poll(follower, 70).alerts.size(), 1U);
}

TEST_F(Follower, MeasuresStepsByTheMarksOfTheProgram) {
  FollowedRanks job(path_, 1);
  Recorder& recorder = job.rank(0);
  const std::vector<std::int64_t> starts = {1000, 3000, 8000, 10000};
  for (std::size_t step = 0; step < starts.size(); ++step) {
    recorder.set_iteration(static_cast<Iteration>(step));
    recorder.finish(recorder.begin({.kind = CommKind::barrier,
                                    .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, CommunicatorId{1}),
                                    .tag = {}},
                                   starts[step]),
                    starts[step] + 10);
  }
  FolderFollower follower(path_);
  const LiveSteps& steps = poll(follower).steps;
  EXPECT_EQ(steps.iteration, 3);
  EXPECT_EQ(steps.completed, 3);
  EXPECT_EQ(steps.last, nanoseconds(2000));
  EXPECT_EQ(steps.median, nanoseconds(2000));  // of 2000, 5000, 2000
}

// Rank 1 works 5 times as long as rank 0 between calls; the ends of calls are common.
TEST_F(Follower, NamesTheRankThatTheOtherWaitsFor) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  for (std::int64_t call = 0; call < 64 * 10; ++call) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = job.rank(rank);
      const std::int64_t begin = call * 10'000;
      const Recorder::Slot slot =
          recorder.begin({.kind = CommKind::all_reduce,
                          .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, CommunicatorId{1}),
                          .blocking = true,
                          .tag = {}},
                         begin + (rank == 0 ? 1000 : 5000));
      recorder.finish(slot, begin + 6000);
    }
    if (call % 64 == 0) {
      poll(follower, call / 64);
    }
  }
  const JobView& view = poll(follower, 20);
  EXPECT_EQ(view.ranks[0].late_score, 0.0);
  EXPECT_EQ(view.ranks[1].late_score, 1.0);
  EXPECT_EQ(view.ranks[0].in_calls, nanoseconds(640 * 5000 - 5000));  // the last one has not been passed
}

/// Every call has a size of its own, so that each can be told apart.
TEST(FollowerOfLostPages, InventsNoCall) {
  const ScratchDirectory scratch;
  constexpr std::int64_t calls = 700;
  constexpr std::int64_t kinds = 97;
  {
    FollowedRanks job(scratch / "whole");
    for (std::int64_t call = 0; call < calls; ++call) {
      job.call(0, 1 + call % kinds);
      job.call(1, 1 + call % kinds);
    }
  }
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const auto& entry : fs::directory_iterator(scratch / "whole")) {
    names.push_back(entry.path().filename());
    contents.push_back(content_of(entry.path()));
  }
  fs::create_directory(scratch / "damaged");
  constexpr int losses = 10'000;
  constexpr std::size_t page = 4096;
  std::mt19937_64 random(20261127);
  std::int64_t fewer = 0;
  std::set<std::size_t> damaged;
  for (std::size_t file = 0; file < names.size(); ++file) {
    damaged.insert(file);
  }
  for (int done = 0; done < losses;) {
    for (const std::size_t file : damaged) {
      std::ofstream(scratch / "damaged" / names[file], std::ios::binary) << contents[file];
    }
    damaged.clear();
    for (std::uint64_t pages = 1 + random() % 6; pages > 0; --pages, ++done) {
      const std::size_t file = random() % names.size();
      std::fstream out(scratch / "damaged" / names[file], std::ios::binary | std::ios::in | std::ios::out);
      const std::size_t begin = random() % (contents[file].size() / page + 1) * page;
      if (names[file] == "manifest.json" || begin >= contents[file].size()) {
        continue;
      }
      damaged.insert(file);
      out.seekp(static_cast<std::streamoff>(begin));
      const std::string zeros(std::min(page, contents[file].size() - begin), '\0');
      out << zeros;
    }
    FolderFollower follower(scratch / "damaged", {.hang_after = {}, .is_single = true});
    ASSERT_TRUE(follower.poll(at(0))) << "after " << done << " losses";
    const JobView& view = follower.view();
    for (const LiveRank& rank : view.ranks) {
      ASSERT_LE(rank.sums.calls, calls) << "after " << done << " losses";
    }
    ASSERT_LE(view.totals.message, Bytes{2 * 4 * (7 * (97 * 98 / 2) + 21 * 22 / 2)})  // 700 = 7 * 97 + 21
        << "after " << done << " losses";
    for (const LiveOp& op : view.ops) {
      ASSERT_TRUE(op.kind == CommKind::all_reduce && op.group_size == 2) << "after " << done << " losses";
      ASSERT_LE(op.largest, Bytes{4 * kinds}) << "after " << done << " losses";
    }
    fewer += view.totals.calls < 2 * calls ? 1 : 0;
    if (done % 8 == 0) {  // what `summary` counts
      const Result<Trace> trace = read_trace(scratch / "damaged");
      ASSERT_TRUE(trace) << trace.error().message;
      ASSERT_EQ(view.totals.calls,
                std::ssize(trace->streams[0].events) + std::ssize(trace->streams[1].events))
          << "after " << done << " losses";
    }
  }
  EXPECT_GT(fewer, 1000);
}

TEST(DurationHistogramOf, ClassesDifferByAnEighthOfAnOctave) {
  EXPECT_EQ(DurationHistogram::class_of(0), 0U);
  EXPECT_EQ(DurationHistogram::class_of(1), 1U);
  EXPECT_EQ(DurationHistogram::class_of(1024), 81U);
  EXPECT_EQ(DurationHistogram::class_of(1116), 81U);  // 2^10.125 = 1116.68
  EXPECT_EQ(DurationHistogram::class_of(1117), 82U);
  EXPECT_EQ(DurationHistogram::class_of(2047), 88U);
  EXPECT_EQ(DurationHistogram::class_of(INT64_MAX), 321U);
  EXPECT_NEAR(DurationHistogram::upper_bound_ns(81), 1116.68, 0.01);
}

TEST(DurationHistogramOf, QuantilesAreWithinNinePercent) {
  DurationHistogram histogram;
  for (int duration = 1; duration <= 1000; ++duration) {
    histogram.add(std::chrono::microseconds(duration));
  }
  EXPECT_EQ(histogram.total(), 1000U);
  EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5)->count()), 500'000, 45'000);
  EXPECT_NEAR(static_cast<double>(histogram.quantile(0.99)->count()), 990'000, 89'000);
  EXPECT_FALSE(DurationHistogram().quantile(0.5).has_value());
}

TEST(DurationHistogramOf, NoQuantileIsLongerThanTheLongestCall) {
  DurationHistogram histogram;
  histogram.add(std::chrono::nanoseconds(1025));  // of the class that ends at 1117 ns
  EXPECT_EQ(histogram.quantile(0.99), std::chrono::nanoseconds(1025));
  DurationHistogram both;
  both.add(std::chrono::nanoseconds(1));
  both.merge(histogram);
  EXPECT_EQ(both.quantile(1), std::chrono::nanoseconds(1025));
}

}  // namespace
}  // namespace commlens
