// A job whose calls a test makes, each of a length of its choice, beside an earlier recording of it.
#include "commlens/app/baseline_watch.hpp"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using test_support::at;
using test_support::FollowedRanks;

/// Ranks make an all_reduce and an all_gather an iteration, 1 ms apart; all but these take 100 µs, and up to
/// 5 µs more, by the number of the iteration.
class TimedJob {
 public:
  explicit TimedJob(const std::filesystem::path& directory) : directory_(directory), ranks_(directory) {}

  void make(Iteration iteration, double factor = 1) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = ranks_.rank(rank);
      recorder.set_iteration(iteration);
      const std::int64_t began = 1'000'000 + iteration * 2'000'000;
      const std::int64_t took = 100'000 + (iteration * 7 % 5) * 1000;
      add(recorder, CommKind::all_reduce, began,
          static_cast<std::int64_t>(static_cast<double>(took) * factor));
      add(recorder, CommKind::all_gather, began + 1'000'000, took);
    }
  }
  void broadcast() {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      add(ranks_.rank(rank), CommKind::broadcast, 900'000'000, 1000);
    }
  }
  void close() { ranks_.close(); }

 private:
  static void add(Recorder& recorder, CommKind kind, std::int64_t began, std::int64_t took) {
    const RecordedCall call = {.kind = kind,
                               .dtype = DType::fp32,
                               .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, CommunicatorId{1}),
                               .input = Elements{8},
                               .output = Elements{kind == CommKind::all_gather ? 16 : 8},
                               .tag = {}};
    const nanoseconds start(began);
    recorder.finish(recorder.begin(call, began), Times{start, start, start + nanoseconds(took)});
  }

  std::filesystem::path directory_;
  FollowedRanks ranks_;
};

class ComparedTimes : public test_support::FollowerTest {
 protected:
  void SetUp() override {
    for (Iteration iteration = 0; iteration < 30; ++iteration) {
      earlier_.make(iteration);
    }
    earlier_.close();
  }
  const JobView& look(std::int64_t second) {
    view_ = poll(follower_, second);
    watch_.value().look(view_, follower_, at(second));
    return view_;
  }
  /// Makes iterations one by one and looks after each.
  void go_on(Iteration iterations, double factor) {
    for (Iteration made = 0; made < iterations; ++made) {
      job_.make(next_++, factor);
      look(next_);
    }
  }

  std::string earlier_path_ = (scratch_ / "earlier").string();
  TimedJob earlier_{earlier_path_};
  TimedJob job_{path_};
  FolderFollower follower_{path_, {.hang_after = {}, .keeps_iterations = true, .keeps_times = true}};
  Result<BaselineWatch> watch_ = failure("not opened");
  JobView view_;
  Iteration next_ = 0;
};

TEST_F(ComparedTimes, OfAnOpThatIsSlowerFireUntilItIsNot) {
  watch_ = BaselineWatch::open(earlier_path_, {});
  ASSERT_TRUE(watch_) << watch_.error().message;
  go_on(14, 1);  // twelve, the one before them, and one that may go on
  EXPECT_EQ(view_.baseline->tests, 1);
  EXPECT_EQ(view_.baseline->error, "");
  EXPECT_TRUE(view_.alerts.empty());

  go_on(12, 1.3);
  EXPECT_EQ(view_.baseline->tests, 1);
  go_on(1, 1.3);
  EXPECT_EQ(view_.baseline->tests, 2);
  ASSERT_EQ(view_.alerts.size(), 1U);
  EXPECT_EQ(view_.alerts[0].id, "slower-1");
  const std::string& text = view_.alerts[0].text;
  EXPECT_NE(text.find("all_reduce along dp 1.30 x (102 µs, now 133 µs)"), std::string::npos) << text;
  EXPECT_EQ(text.find("all_gather"), std::string::npos) << text;

  go_on(13, 1);
  EXPECT_TRUE(view_.alerts.empty());
  EXPECT_EQ(view_.alerts_fired, 1);
}

TEST_F(ComparedTimes, OfAnIterationThatLacksSomeAreLeftOut) {
  watch_ = BaselineWatch::open(earlier_path_, {});
  ASSERT_TRUE(watch_) << watch_.error().message;
  job_.make(next_++);
  test_support::lose_time(path_, 1, 1);  // of its all_gather
  job_.make(next_++);
  look(next_);
  EXPECT_EQ(view_.baseline->error, "an iteration has calls without times");
  go_on(12, 1.3);  // with the one before twelve are whole
  EXPECT_EQ(view_.baseline->tests, 0);
  go_on(1, 1.3);
  EXPECT_EQ(view_.baseline->tests, 1);
  EXPECT_EQ(view_.baseline->error, "");
  EXPECT_EQ(view_.alerts.size(), 1U);
}

/// A rare op is no other job: the earlier recording has one, and these iterations have none.
TEST_F(ComparedTimes, OfOpsThatBothHaveAreCompared) {
  const std::string rare = (scratch_ / "rare").string();
  {
    TimedJob job(rare);
    for (Iteration iteration = 0; iteration < 30; ++iteration) {
      job.make(iteration);
      if (iteration == 20) {
        job.broadcast();
      }
    }
    job.close();
  }
  watch_ = BaselineWatch::open(rare, {});
  ASSERT_TRUE(watch_) << watch_.error().message;
  go_on(14, 1.3);
  EXPECT_EQ(view_.baseline->error, "");
  ASSERT_EQ(view_.alerts.size(), 1U);
  EXPECT_NE(view_.alerts[0].text.find("all_reduce along dp 1.30 x"), std::string::npos);
}

TEST_F(ComparedTimes, OfAnotherJobAreNone) {
  watch_ = BaselineWatch::open(earlier_path_, {});
  ASSERT_TRUE(watch_);
  FollowedRanks other(scratch_ / "other");
  FolderFollower follower(scratch_ / "other",
                          {.hang_after = {}, .keeps_iterations = true, .keeps_times = true});
  for (Iteration iteration = 0; iteration < 14; ++iteration) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      other.rank(rank).set_iteration(iteration);
      other.call(rank);
    }
    view_ = poll(follower, iteration);
    watch_->look(view_, follower, at(iteration));
  }
  EXPECT_NE(view_.baseline->error.find("not the same job"), std::string::npos) << view_.baseline->error;
  EXPECT_EQ(view_.baseline->tests, 0);
}

TEST_F(ComparedTimes, AreOfARecording) {
  EXPECT_FALSE(BaselineWatch::open("19M", {}));
  EXPECT_FALSE(BaselineWatch::open((scratch_ / "nowhere").string(), {}));
  const Result<BaselineWatch> untimed = BaselineWatch::open(path_.string(), {});
  ASSERT_FALSE(untimed);
  EXPECT_NE(untimed.error().message.find("--baseline "), std::string::npos) << untimed.error().message;
}

}  // namespace
}  // namespace commlens
