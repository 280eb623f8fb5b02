// What becomes of a folder that is followed: it goes away and comes back, another job takes it, its job is
// killed, its files cannot be opened.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/test_support.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/live/follower_test_support.hpp"
#include "commlens/live/rolling_tally.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test_support::content_of;
using test_support::FollowedRanks;
using test_support::FollowerTest;

class FollowerOfChanges : public FollowerTest {
 protected:
  /// A copy of the recording as if another process had made it.
  fs::path copy_of(std::int64_t pid, std::int64_t start_ticks) {
    const fs::path copy = scratch_ / "copy";
    fs::create_directory(copy);
    for (const auto& entry : fs::directory_iterator(path_)) {
      std::string text = content_of(entry.path());
      if (entry.path().extension() == ".jsonl") {
        text = std::regex_replace(text, std::regex(R"re("pid": ?\d+)re"), fmt::format(R"("pid":{})", pid));
        text = std::regex_replace(text, std::regex(R"re("start_ticks": ?\d+)re"),
                                  fmt::format(R"("start_ticks":{})", start_ticks));
      }
      std::ofstream(copy / entry.path().filename(), std::ios::binary) << text;
    }
    return copy;
  }
  /// A recording of one rank, whose last line was not written, with so many calls.
  void record(std::int64_t calls) {
    FollowedRanks job(path_, 1);
    for (std::int64_t call = 0; call < calls; ++call) {
      job.call(0);
    }
    job.close();
    const std::string tables = content_of(path_ / "rank-0.jsonl");
    std::ofstream(path_ / "rank-0.jsonl", std::ios::binary) << tables.substr(0, tables.rfind("{\"closed\""));
  }
};

TEST_F(FollowerOfChanges, GoesOnWhenAFolderComesBack) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  job.call(0);
  poll(follower);
  fs::rename(path_, scratch_ / "away");
  EXPECT_EQ(poll(follower).state, LiveState::removed);
  EXPECT_TRUE(follower.view().ranks.empty());
  fs::rename(scratch_ / "away", path_);
  job.call(0);
  EXPECT_EQ(poll(follower, 1).state, LiveState::running);
  EXPECT_EQ(follower.view().generation, 1);
  EXPECT_EQ(follower.view().totals.calls, 2);
  EXPECT_EQ(follower.view().ranks.size(), 2U);
}

TEST_F(FollowerOfChanges, TakesTheNumberOfTheSecondJob) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  {
    const test_support::ScopedVariable number("SLURM_JOB_ID", "111");
    job.call(0);
    job.call(0);
    job.call(1);
    EXPECT_EQ(poll(follower).job_id, "111");
    job.close();
  }
  const test_support::ScopedVariable number("SLURM_JOB_ID", "222");
  job.call(0);
  job.call(1);
  poll(follower, 1);
  EXPECT_EQ(poll(follower, 2).generation, 2);
  EXPECT_EQ(follower.view().job_id, "222");
}

TEST_F(FollowerOfChanges, ForgetsTheAlertOfTheJobBefore) {
  FollowedRanks job(path_);
  FolderFollower follower(path_, {.hang_after = seconds(0)});
  job.call(1);
  job.enter(0);
  job.enter(0);
  EXPECT_EQ(poll(follower).alerts.size(), 1U);
  fs::rename(path_, scratch_ / "old");
  fs::create_directory(path_);  // its manifest is not there yet
  EXPECT_TRUE(poll(follower, 1).alerts.empty());
  EXPECT_TRUE(follower.view().ranks.empty());
  EXPECT_EQ(follower.view().state, LiveState::absent);
  EXPECT_EQ(follower.view().alerts_fired, 1);
}

TEST_F(FollowerOfChanges, BeginsAnewWithAManifestOfOtherRanks) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  job.call(0);
  poll(follower, 0);
  EXPECT_EQ(poll(follower, 5).window, seconds(5));
  const FollowedRanks other(scratch_ / "other", 3);
  fs::copy_file(scratch_ / "other" / "manifest.json", path_ / "manifest.json",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(poll(follower, 6).generation, 2);
  EXPECT_EQ(follower.view().ranks.size(), 3U);
  EXPECT_EQ(follower.view().window, seconds(0));
}

TEST_F(FollowerOfChanges, SaysWhyAJobThatWasKilledBeforeDidNotGoOn) {
  FollowedRanks job(path_);
  job.call(0);
  job.call(1);
  job.enter(0);
  FolderFollower follower(copy_of(getpid(), start_ticks_of(getpid()).value() + 1));
  EXPECT_EQ(poll(follower).state, LiveState::stopped);
  ASSERT_EQ(follower.view().alerts.size(), 1U);
  EXPECT_EQ(follower.view().alerts[0].verdict, HangVerdict::missing);
  EXPECT_EQ(follower.view().alerts[0].culprits, std::vector{Rank{1}});
}

TEST_F(FollowerOfChanges, SaysItOfAJobThatIsKilledSoonerThanTheLimit) {
  FollowedRanks job(path_);
  job.call(0);
  job.call(1);
  job.enter(0);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  FolderFollower follower(copy_of(child, start_ticks_of(child).value()), {.hang_after = seconds(20)});
  EXPECT_EQ(poll(follower, 0).state, LiveState::running);
  EXPECT_TRUE(poll(follower, 1).alerts.empty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(poll(follower, 2).state, LiveState::stopped);
  ASSERT_EQ(follower.view().alerts.size(), 1U);
  EXPECT_EQ(follower.view().alerts[0].culprits, std::vector{Rank{1}});
  EXPECT_EQ(poll(follower, 3).alerts_fired, 1);
}

TEST_F(FollowerOfChanges, HasNoVerdictOnAJobThatEndedWell) {
  FollowedRanks job(path_);
  job.call(0);
  job.call(1);
  job.close();
  FolderFollower follower(copy_of(getpid(), start_ticks_of(getpid()).value() + 1));
  EXPECT_EQ(poll(follower).state, LiveState::ended);
  EXPECT_TRUE(follower.view().alerts.empty());
}

// A record has 32 bytes, and 64 are before the first: those of the third page are 254 to 381.
TEST_F(FollowerOfChanges, GivesEachPageItsOwnMinute) {
  record(1000);
  const std::string whole = content_of(path_ / "rank-0.bin");
  const auto write = [&](std::uint64_t records, std::size_t lost_page) {
    std::string part = whole;
    StreamHeader header;
    std::memcpy(&header, part.data(), sizeof header);
    header.records = records;
    std::memcpy(part.data(), &header, sizeof header);
    std::fill_n(part.begin() + static_cast<std::ptrdiff_t>(4096 * lost_page), 4096, '\0');
    std::ofstream(path_ / "rank-0.bin", std::ios::binary | std::ios::in) << part;
  };
  write(382, 2);
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower, 0).totals.calls, 254);
  EXPECT_EQ(poll(follower, 60).lost.at("call lost, record of zeros"), 128);
  write(1000, 3);
  EXPECT_EQ(poll(follower, 61).lost.at("call lost, record of zeros"), 128);
  EXPECT_EQ(poll(follower, 120).totals.calls, 254);
  EXPECT_EQ(poll(follower, 121).lost.at("call lost, record of zeros"), 256);
  EXPECT_EQ(follower.view().totals.calls, 1000 - 256);
}

TEST_F(FollowerOfChanges, CountsTheIterationsOfTheLeaderAlone) {
  FollowedRanks job(path_);
  FolderFollower follower(path_);
  const auto run = [&](std::int64_t rank, Iteration iterations) {
    Recorder& recorder = job.rank(rank);
    for (Iteration iteration = 0; iteration <= iterations; ++iteration) {
      recorder.set_iteration(iteration);
      recorder.finish(
          recorder.begin({.kind = CommKind::barrier,
                          .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, CommunicatorId{1}),
                          .tag = {}},
                         1000 * iteration + 1),
          1000 * iteration + 2);
    }
  };
  run(1, 50);
  EXPECT_EQ(poll(follower).steps.completed, 50);
  run(0, 20'000);
  EXPECT_EQ(poll(follower, 1).steps.completed, 20'000);
  EXPECT_EQ(follower.view().steps.median, nanoseconds(1000));
  EXPECT_EQ(follower.view().steps.durations.total(), 20'000U);
}

TEST_F(FollowerOfChanges, TriesAgainWhereNoFileCanBeOpened) {
  FollowedRanks job(path_, 1);
  FolderFollower follower(path_);
  poll(follower);
  job.call(0);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<void> polled = follower.poll(test_support::at(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(polled);
  EXPECT_EQ(follower.view().ranks.at(0).error, "rank-0.bin: Too many open files");
  EXPECT_EQ(poll(follower, 2).totals.calls, 1);
  EXPECT_EQ(follower.view().ranks.at(0).error, "");
}

TEST_F(FollowerOfChanges, BoundsBlockingCallsThatDoNotEnd) {
  FollowedRanks job(path_, 1);
  constexpr std::int64_t kept = 65'536 + 4'096;
  for (std::int64_t call = 0; call < kept + 5; ++call) {
    job.enter(0);
  }
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).ranks.at(0).open_calls, kept);
  EXPECT_EQ(follower.view().watcher.unfollowed_calls, 5);
}

TEST_F(FollowerOfChanges, RefusesALineOfATableThatDoesNotEnd) {
  record(1);
  constexpr std::size_t too_long = (std::size_t{1} << 20) + 1;
  std::ofstream(path_ / "rank-0.jsonl", std::ios::binary | std::ios::app) << std::string(too_long, 'x');
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).ranks.at(0).error, "rank-0.jsonl: a line of more than 1048576 bytes");
}

TEST_F(FollowerOfChanges, SaysWhatTablesCannotBeOpened) {
  record(1);
  fs::rename(path_ / "rank-0.jsonl", path_ / "real");
  fs::create_symlink("real", path_ / "rank-0.jsonl");
  FolderFollower follower(path_);
  EXPECT_EQ(poll(follower).ranks.at(0).error, "rank-0.jsonl: Too many levels of symbolic links");
}

TEST_F(FollowerOfChanges, SaysWhyAManifestIsNotRead) {
  fs::create_directory(path_);
  std::ofstream(path_ / "manifest.json") << "{\"schema\"";
  FolderFollower follower(path_);
  EXPECT_NE(poll(follower).error.find("manifest.json"), std::string::npos);
  fs::remove(path_ / "manifest.json");
  EXPECT_EQ(poll(follower).error, "");
}

TEST_F(FollowerOfChanges, NamesTheFolderThatADotMeans) {
  fs::create_directory(path_);
  const fs::path before = fs::current_path();
  fs::current_path(path_);
  const FolderFollower follower(".");
  fs::current_path(before);
  EXPECT_EQ(follower.view().name, "trace");
}

TEST(SlidingSumsOf, HostileDurationsDoNotOverflow) {
  SlidingSums sums;
  sums.add(1, Bytes{INT64_MAX}, nanoseconds::max());
  sums.add(1, Bytes{INT64_MAX}, nanoseconds::max());
  sums.add(2, Bytes{1}, nanoseconds::max());
  EXPECT_EQ(sums.sum(2).time, nanoseconds::max());
  EXPECT_EQ(sums.sum(2).message, Bytes{INT64_MAX});
  EXPECT_EQ(sums.sum(2).calls, 3);
}

}  // namespace
}  // namespace commlens
