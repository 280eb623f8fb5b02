#include "commlens/app/record_iterations.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using Calls = std::vector<std::uint32_t>;

Calls repeated(const Calls& before, const Calls& part, int times, const Calls& after) {
  Calls calls = before;
  for (int time = 0; time < times; ++time) {
    calls.insert(calls.end(), part.begin(), part.end());
  }
  calls.insert(calls.end(), after.begin(), after.end());
  return calls;
}

TEST(RepeatingPart, StartsAfterCallsThatOccurOnce) {
  // 7 8 | 1 2 3 five times
  EXPECT_EQ(repeating_part(repeated({7, 8}, {1, 2, 3}, 5, {})), (RepeatingPart{2, 3, 5}));
}

TEST(RepeatingPart, ExcludesLastCalls) {
  EXPECT_EQ(repeating_part(repeated({7}, {1, 2, 2}, 6, {9, 9})), (RepeatingPart{1, 3, 6}));
}

TEST(RepeatingPart, IsTheShortestOne) {
  // 1 2 1 2 repeated twice is 1 2 four times.
  EXPECT_EQ(repeating_part(repeated({}, {1, 2, 1, 2}, 2, {})), (RepeatingPart{0, 2, 4}));
}

TEST(RepeatingPart, TwiceIsNotEnough) { EXPECT_FALSE(repeating_part(repeated({}, {1, 2, 3}, 2, {}))); }

TEST(RepeatingPart, MustCoverHalfOfTheCalls) {
  // Three times 4, after seven calls that are all different.
  EXPECT_FALSE(repeating_part(repeated({10, 11, 12, 13, 14, 15, 16}, {4}, 3, {})));
}

TEST(RepeatingPart, NoCallsDoNotRepeat) { EXPECT_FALSE(repeating_part({})); }

TEST(CommonParts, PutsSeveralPeriodsOfARankIntoOneIteration) {
  // Rank 0 repeats 3 calls 5 times, rank 1 a single call 10 times: two of those are one iteration.
  const std::vector<RepeatingPart> parts = common_parts({RepeatingPart{2, 3, 5}, RepeatingPart{1, 1, 10}});
  EXPECT_EQ(parts, (std::vector<RepeatingPart>{{2, 3, 5}, {1, 2, 5}}));
}

TEST(CommonParts, LeavesRepeatsOverAtTheStart) {
  // 11 = 5 * 2 + 1: the first of the eleven belongs to initialisation.
  const std::vector<RepeatingPart> parts = common_parts({RepeatingPart{0, 3, 5}, RepeatingPart{4, 1, 11}});
  EXPECT_EQ(parts, (std::vector<RepeatingPart>{{0, 3, 5}, {5, 2, 5}}));
}

TEST(CommonParts, NeedsEveryRank) {
  EXPECT_TRUE(common_parts({RepeatingPart{0, 3, 5}, std::nullopt}).empty());
}

TEST(CommonParts, RefusesNumbersThatDoNotFit) {
  // 9 = 5 * 1 + 4: four left over where one makes an iteration.
  EXPECT_TRUE(common_parts({RepeatingPart{0, 3, 5}, RepeatingPart{0, 1, 9}}).empty());
}

/// Two ranks in rings of 10 records; each makes a call that occurs once and then `repeats` times two that
/// repeat.
class RepetitionsInRings : public testing::Test {
 protected:
  void record(int repeats) {
    create_recording(path_, {.producer = "test", .ranks = 2, .ring_records = 10});
    for (const std::int64_t rank : {0, 1}) {
      Recorder& recorder = *recorders_.emplace_back(
          std::make_unique<Recorder>(path_, Rank{rank}, RecorderOptions{.ring_records = 10}));
      const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::world);
      const auto call = [&](CommKind kind) {
        recorder.finish(recorder.begin({.kind = kind, .group = group, .tag = {}}));
      };
      call(CommKind::broadcast);
      for (int repeat = 0; repeat < repeats; ++repeat) {
        call(CommKind::all_reduce);
        call(CommKind::barrier);
      }
    }
  }
  std::vector<Iteration> iterations() const {
    std::vector<Iteration> found;
    const Result<Manifest> manifest = read_manifest(path_ / "manifest.json");
    const Result<StreamFile> file = StreamFile::open(path_ / "rank-1.bin", manifest->streams.at(1));
    file->visit_records(std::vector<OpId>(3),
                        [&](OpId, const StreamRecord& record) { found.push_back(record.iteration); });
    return found;
  }
  test_support::ScratchDirectory directory_;
  std::filesystem::path path_ = directory_ / "t";
  std::vector<std::unique_ptr<Recorder>> recorders_;
};

TEST_F(RepetitionsInRings, AreNumberedFromTheFirstThatIsLeft) {
  record(100);
  recorders_.clear();
  EXPECT_EQ(settle_iterations(path_),
            "5 iterations found by repetition: the same 2 calls of a rank again and again");
  EXPECT_EQ(iterations(), (std::vector<Iteration>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST_F(RepetitionsInRings, OfCallsThatAreAllThereBeginAfterInitialisation) {
  record(4);  // 9 calls
  recorders_.clear();
  EXPECT_EQ(settle_iterations(path_),
            "4 iterations found by repetition: the same 2 calls of a rank again and again");
  EXPECT_EQ(iterations(), (std::vector<Iteration>{-1, 0, 0, 1, 1, 2, 2, 3, 3}));
}

// The ranks of a job that was killed were not all at the same call.
TEST_F(RepetitionsInRings, ArentLookedForWhereTheLastCallsMayDiffer) {
  record(100);
  recorders_.front().reset();
  EXPECT_EQ(settle_iterations(path_).substr(0, 61),
            "iterations unknown: the program marks none, and of a job that");
  EXPECT_EQ(iterations(), std::vector<Iteration>(10, k_unknown_iteration));
}

}  // namespace
}  // namespace commlens
