// A job whose ranks have clocks that are hours apart, followed and looked at: who waits for whom, and who is
// late, is known without them.
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/hang.hpp"
#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using test_support::at;
using test_support::FollowedRanks;

constexpr std::int64_t k_hour_ns = 3'600'000'000'000;
constexpr std::int64_t k_clocked_ranks = 4;

/// What the files of four ranks say of time.
struct FourClocks {
  std::string name;
  std::array<std::int64_t, k_clocked_ranks> ahead_ns{};
  bool shifts_wall = false;  // as clocks with other zeros, whose wall clocks agree
  bool has_points = false;   // the ranks say that they compared their clocks, and that these agree
  bool has_boots = false;    // each rank seems to be on a machine of its own
};

/// Puts other digits, as many, into the number or text after `key` of the first line of a file.
void change_first_line(const fs::path& file, std::string_view key,
                       const std::function<std::string(const std::string&)>& changed) {
  std::fstream in_place(file, std::ios::in | std::ios::out | std::ios::binary);
  std::string line;
  ASSERT_TRUE(std::getline(in_place, line)) << file;
  const std::size_t found = line.find(fmt::format("\"{}\"", key));
  ASSERT_NE(found, std::string::npos) << line;
  const std::size_t begin = line.find_first_not_of("\": ", found + key.size() + 1);
  const std::size_t end = line.find_first_of("\",}", begin);
  const std::string text = changed(line.substr(begin, end - begin));
  ASSERT_EQ(text.size(), end - begin) << line;
  in_place.seekp(static_cast<std::streamoff>(begin));
  in_place << text;
}

/// Four ranks whose calls are made at planted times.
class ClockedJob {
 public:
  ClockedJob(const fs::path& path, const FourClocks& clocks)
      : ranks_(path, k_clocked_ranks), ahead_ns_(clocks.ahead_ns) {
    now_ns_.fill(10 * k_hour_ns);
    for (std::int64_t rank = 0; rank < k_clocked_ranks; ++rank) {
      Recorder& recorder = ranks_.rank(rank);
      const fs::path tables = path / fmt::format("rank-{}.jsonl", rank);
      if (clocks.shifts_wall) {
        change_first_line(tables, "wall_offset_ns", [&](const std::string& offset) {
          return std::to_string(std::stoll(offset) - clocks.ahead_ns[static_cast<std::size_t>(rank)]);
        });
      }
      if (clocks.has_boots) {
        change_first_line(tables, "boot", [&](const std::string& boot) {
          return std::string(boot.size(), static_cast<char>('0' + rank));
        });
      }
      if (clocks.has_points) {
        recorder.add_clock_point({.at = std::chrono::nanoseconds(clock_of(rank)),
                                  .offset = {},
                                  .error = std::chrono::nanoseconds(1000)});
      }
    }
  }

  void work(std::int64_t rank, std::int64_t ns) { now_ns_[static_cast<std::size_t>(rank)] += ns; }

  Recorder::Slot enter(std::int64_t rank, const std::vector<std::int64_t>& members,
                       std::int64_t elements = 8) {
    Recorder& recorder = ranks_.rank(rank);
    std::vector<Rank> group;
    std::transform(members.begin(), members.end(), std::back_inserter(group),
                   [](std::int64_t member) { return Rank{member}; });
    const auto communicator = static_cast<std::uint64_t>(1 + members.front() + 8 * std::ssize(members));
    return recorder.begin({.kind = CommKind::all_reduce,
                           .dtype = DType::fp32,
                           .group = recorder.group(group, Axis::unknown, CommunicatorId{communicator}),
                           .input = Elements{elements},
                           .output = Elements{elements},
                           .blocking = true,
                           .tag = {}},
                          clock_of(rank));
  }

  /// Ends for all of them `cost_ns` after the last has come.
  void meet(const std::vector<std::int64_t>& members, std::int64_t cost_ns) {
    std::int64_t last = 0;
    for (const std::int64_t rank : members) {
      last = std::max(last, now_ns_[static_cast<std::size_t>(rank)]);
    }
    for (const std::int64_t rank : members) {
      const Recorder::Slot slot = enter(rank, members);
      now_ns_[static_cast<std::size_t>(rank)] = last + cost_ns;
      ranks_.rank(rank).finish(slot, clock_of(rank));
    }
  }

  /// Of summary/slow_ranks_test.cpp: rank 2 works 4 us longer than the others, and rank 3 waits for it in
  /// {2,3} before all meet, where it comes last. 5,320 ns.
  void step(Iteration number) {
    for (std::int64_t rank = 0; rank < k_clocked_ranks; ++rank) {
      ranks_.rank(rank).set_iteration(number);
      work(rank, rank == 2 ? 5000 : 1000);
    }
    meet({0, 1}, 100);
    meet({2, 3}, 100);
    for (std::int64_t rank = 0; rank < k_clocked_ranks; ++rank) {
      work(rank, rank == 3 ? 20 : 10);
    }
    meet({0, 1, 2, 3}, 200);
  }

 private:
  std::int64_t clock_of(std::int64_t rank) const {
    return now_ns_[static_cast<std::size_t>(rank)] + ahead_ns_[static_cast<std::size_t>(rank)];
  }

  FollowedRanks ranks_;
  std::array<std::int64_t, k_clocked_ranks> ahead_ns_;
  std::array<std::int64_t, k_clocked_ranks> now_ns_{};
};

const std::vector<std::int64_t> k_all_four = {0, 1, 2, 3};

/// How the job gets stuck; who is at fault is known by how it is made.
struct StuckJob {
  std::string verdict;
  std::vector<Rank> culprits;
  std::int64_t fires_after_s = 0;  // of --hang-after 20, of which a tenth is enough for a mismatch
  std::function<void(ClockedJob&)> make;
};

std::vector<StuckJob> stuck_jobs() {
  return {{"missing",
           {Rank{2}},
           20,
           [](ClockedJob& job) {
             for (const std::int64_t rank : {0, 1, 3}) {
               job.enter(rank, k_all_four);
             }
           }},
          {"deadlock",
           {Rank{0}, Rank{1}},
           20,
           [](ClockedJob& job) {
             job.enter(0, {0, 1});
             for (const std::int64_t rank : {1, 2, 3}) {
               job.enter(rank, k_all_four);
             }
           }},
          {"mismatch", {Rank{2}}, 2, [](ClockedJob& job) {
             for (const std::int64_t rank : k_all_four) {
               job.enter(rank, k_all_four, rank == 2 ? 16 : 8);
             }
           }}};
}

std::vector<FourClocks> shifted_clocks() {
  constexpr std::array<std::int64_t, k_clocked_ranks> apart = {k_hour_ns, 0, -k_hour_ns, k_hour_ns};
  return {{.name = "times-alone", .ahead_ns = apart},
          {.name = "late-rank-behind", .ahead_ns = {0, 0, -k_hour_ns, 0}},
          {.name = "late-rank-ahead", .ahead_ns = {0, 0, k_hour_ns, 0}},
          {.name = "other-zeros", .ahead_ns = apart, .shifts_wall = true},
          {.name = "wrong-points", .ahead_ns = apart, .has_points = true},
          {.name = "other-machines", .ahead_ns = apart, .shifts_wall = true, .has_boots = true}};
}

std::vector<Rank> culprits_in(const JobProgress& job, const HangFinding& finding) {
  std::vector<Rank> culprits;
  for (const HangCulprit& culprit : finding.culprits) {
    culprits.push_back(job.ranks[culprit.rank].state.rank);
  }
  return culprits;
}

/// A line for each rank: what is known of it without comparing clocks.
std::vector<std::string> known_of(const JobView& view) {
  std::vector<std::string> lines;
  for (const LiveRank& rank : view.ranks) {
    lines.push_back(fmt::format("{}: late {}, {} ns in calls, {} between, {} calls of {} ns, {} open",
                                rank.rank.value, rank.late_score.value_or(-1), rank.in_calls.count(),
                                rank.between_calls.count(), rank.sums.calls, rank.sums.time.count(),
                                rank.open_calls));
  }
  return lines;
}

class ShiftedClocks : public test_support::FollowerTest {
 protected:
  /// Follows 130 steps, then the job as it gets stuck, and looks at it as `hang` does.
  void expect_found(const FourClocks& clocks, const StuckJob& stuck, JobView& seen) {
    const fs::path path = scratch_ / fmt::format("{}-{}", stuck.verdict, clocks.name);
    ClockedJob job(path, clocks);
    FolderFollower follower(path, {.hang_after = std::chrono::seconds(20)});
    for (Iteration step = 0; step < 130; ++step) {
      job.step(step);
      if (step % 13 == 0) {
        EXPECT_TRUE(poll(follower, step / 13).alerts.empty()) << "step " << step;
      }
    }
    stuck.make(job);
    EXPECT_TRUE(poll(follower, 100).alerts.empty());
    EXPECT_TRUE(poll(follower, 100 + stuck.fires_after_s - 1).alerts.empty());
    seen = poll(follower, 100 + stuck.fires_after_s);
    ASSERT_EQ(seen.alerts.size(), 1U);
    EXPECT_EQ(name_of(seen.alerts[0].verdict), stuck.verdict);
    EXPECT_EQ(seen.alerts[0].culprits, stuck.culprits);
    const Result<HangResult> looked = hang({.inputs = {path.string()}, .unchanged_for = {}, .events = {}});
    ASSERT_TRUE(looked) << looked.error().message;
    EXPECT_EQ(name_of(looked->finding.verdict), stuck.verdict);
    EXPECT_EQ(culprits_in(looked->job, looked->finding), stuck.culprits);
  }
};

TEST_F(ShiftedClocks, ChangeNoVerdictAndNoScore) {
  for (const StuckJob& stuck : stuck_jobs()) {
    JobView together;
    expect_found({.name = "together"}, stuck, together);
    for (const FourClocks& clocks : shifted_clocks()) {
      SCOPED_TRACE(stuck.verdict + ", " + clocks.name);
      JobView apart;
      expect_found(clocks, stuck, apart);
      EXPECT_EQ(known_of(apart), known_of(together));
      ASSERT_EQ(apart.ranks.size(), 4U);
      for (const LiveRank& rank : apart.ranks) {
        EXPECT_EQ(rank.late_score, rank.rank == Rank{2} ? 1.0 : 0.0) << "rank " << rank.rank.value;
      }
      EXPECT_EQ(apart.steps.completed, 129);
      EXPECT_EQ(apart.steps.median, std::chrono::nanoseconds(5320));
      EXPECT_TRUE(apart.lost.empty());
      EXPECT_EQ(apart.alerts_fired, 1);
    }
  }
}

}  // namespace
}  // namespace commlens
