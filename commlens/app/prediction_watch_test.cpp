// A job whose calls a test makes one by one, as its configuration says or otherwise, beside the prediction.
#include "commlens/app/prediction_watch.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/read_config.hpp"
#include "commlens/live/follower_test_support.hpp"

namespace commlens {
namespace {

using test_support::at;
using test_support::FollowedRanks;

ExpectedJob said_job() {
  ExpectedJob expected{.config = "19M", .framework = "commlens", .overrides = {}};
  expected.overrides.dp = 2;
  expected.overrides.layers = 1;
  expected.overrides.hidden = 16;
  expected.overrides.heads = 2;
  expected.overrides.seq = 8;
  expected.overrides.vocab = 32;
  return expected;
}

class PredictedJob : public test_support::FollowerTest {
 protected:
  void SetUp() override {
    const Plan plan =
        Planner({}).plan(read_config({"19M"}, "commlens").value(), said_job().overrides).value();
    steady_ = plan.steady_iteration();
    std::vector<Iteration> iterations;
    for (Iteration iteration = 0; iteration <= steady_; ++iteration) {
      iterations.push_back(iteration);
    }
    said_ = plan.trace_of(iterations);
  }

  /// The calls of an iteration, by all ranks.
  void make(Iteration iteration, std::int64_t extra_elements = 0) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      make_of(rank, iteration, extra_elements);
    }
  }
  /// … by one rank, but for the `left_out` first ones.
  void make_of(std::int64_t of, Iteration iteration, std::int64_t extra_elements = 0,
               std::int64_t left_out = 0) {
    Recorder& recorder = ranks_.rank(of);
    if (marks_) {
      recorder.set_iteration(iteration);
    }
    for (const CommEvent& event : said_.stream_of(Rank{of})->events) {
      if (event.iteration == std::min(iteration, steady_) && left_out-- <= 0) {
        recorder.finish(recorder.begin(call_of(of, event.op)));
      }
    }
    if (extra_elements > 0) {
      ranks_.call(of, extra_elements);
    }
  }
  RecordedCall call_of(std::int64_t of, OpId said) {
    const CommOp& op = said_.op(said);
    const std::vector<Rank> members = said_.groups.members(op.group, Rank{of});
    return {.kind = op.kind,
            .dtype = op.dtype,
            .group = ranks_.rank(of).group(members, Axis::dp, CommunicatorId{1}),
            .input = op.input,
            .output = op.output,
            .root = op.root,
            .tag = {}};
  }
  /// The first call of a rank in an iteration after the first ones.
  OpId first_op(std::int64_t of) const {
    const std::vector<CommEvent>& events = said_.stream_of(Rank{of})->events;
    return std::find_if(events.begin(), events.end(),
                        [&](const CommEvent& event) { return event.iteration == steady_; })
        ->op;
  }
  /// Calls of all ranks in an iteration after the first ones.
  std::int64_t calls_said() const {
    std::int64_t calls = 0;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      for (const CommEvent& event : said_.stream_of(Rank{rank})->events) {
        calls += event.iteration == steady_ ? 1 : 0;
      }
    }
    return calls;
  }

  const JobView& look(std::int64_t second) {
    view_ = poll(follower_, second);
    watch_.look(view_, follower_, at(second), false);
    return view_;
  }

  Trace said_;
  Iteration steady_ = 0;
  bool marks_ = true;
  FollowedRanks ranks_{path_};
  FolderFollower follower_{path_, {.hang_after = {}, .keeps_iterations = true}};
  PredictionWatch watch_ = PredictionWatch::open(said_job(), {}).value();
  JobView view_;
};

TEST_F(PredictedJob, ThatSendsWhatIsSaidIsComparedEveryTenSeconds) {
  make(5);
  EXPECT_EQ(look(0).prediction->iterations, 0);  // it may go on
  for (Iteration iteration = 6; iteration < 20; ++iteration) {
    make(iteration);
    look(iteration - 5);
    EXPECT_TRUE(view_.alerts.empty());
    EXPECT_EQ(view_.prediction->iterations, iteration < 16 ? 1 : 2) << iteration;
  }
  EXPECT_EQ(view_.prediction->iteration, 15);
  EXPECT_EQ(view_.prediction->exact, 2 * calls_said());
  EXPECT_EQ(view_.prediction->size + view_.prediction->missing + view_.prediction->extra, 0);
  EXPECT_TRUE(view_.prediction->deviations.empty());
  EXPECT_EQ(view_.prediction->error, "");
}

TEST_F(PredictedJob, IsKnownInItsFirstIterations) {
  for (Iteration iteration = 0; iteration <= steady_ + 1; ++iteration) {
    make(iteration);
    look(20 * iteration);
  }
  EXPECT_EQ(view_.prediction->iterations, steady_ + 1);
  EXPECT_EQ(view_.prediction->extra + view_.prediction->missing + view_.prediction->size, 0);
}

TEST_F(PredictedJob, FiresAfterThreeIterationsThatDifferAlikeUntilOneDoesNot) {
  for (Iteration iteration = 5; iteration <= 8; ++iteration) {
    EXPECT_TRUE(look(iteration).alerts.empty());
    make(iteration, 100);
  }
  EXPECT_TRUE(look(9).alerts.size() == 1);
  const LiveAlert alert = view_.alerts.at(0);
  EXPECT_EQ(alert.id, "volume-1");
  EXPECT_EQ(alert.kind, "volume");
  EXPECT_NE(alert.text.find("iteration 7 is not what 19M says: "), std::string::npos) << alert.text;
  EXPECT_NE(alert.text.find("2 more than predicted"), std::string::npos) << alert.text;
  EXPECT_EQ(view_.prediction->in_a_row, 3);
  EXPECT_EQ(view_.prediction->extra, 6);
  ASSERT_EQ(view_.prediction->deviations.size(), 1U);
  const LiveDeviation& deviation = view_.prediction->deviations[0];
  EXPECT_EQ(deviation.kind, CommKind::all_reduce);
  EXPECT_EQ(deviation.recorded.value - deviation.predicted.value, 2 * 100 * 4);  // fp32 on two ranks
  EXPECT_EQ(view_.alerts_fired, 1);

  make(9, 100);
  EXPECT_EQ(look(10).alerts.at(0).id, "volume-1");
  make(10);
  make(11);
  EXPECT_TRUE(look(11).alerts.empty());
  EXPECT_EQ(view_.alerts_fired, 1);
}

/// As where each is evaluated, or saved, in its own way.
TEST_F(PredictedJob, DoesNotFireWhereIterationsDifferInOtherWays) {
  for (Iteration iteration = 5; iteration <= 15; ++iteration) {
    make(iteration, 100 + iteration);
    EXPECT_TRUE(look(iteration).alerts.empty());
  }
  EXPECT_EQ(view_.prediction->in_a_row, 1);
}

TEST_F(PredictedJob, ThatHasEndedFiresAtOnce) {
  make(5, 100);
  make(6, 100);
  ranks_.close();
  look(0);
  EXPECT_EQ(look(1).state, LiveState::ended);
  EXPECT_EQ(view_.prediction->iteration, 6);  // the last one, too, is whole
  EXPECT_EQ(view_.alerts.size(), 1U);
}

TEST_F(PredictedJob, IsNotComparedBeforeAllRanksAreThroughAnIteration) {
  make(5);
  make_of(0, 6);
  look(0);
  EXPECT_EQ(view_.prediction->iterations, 0);
  make_of(1, 6);
  EXPECT_EQ(look(1).prediction->iteration, 5);
}

/// Its repetition is an iteration, wherever that begins: rank 1 has begun another one.
TEST_F(PredictedJob, ThatMarksNoIterationsIsComparedByWhatItRepeats) {
  marks_ = false;
  make(steady_);
  look(0);
  EXPECT_EQ(view_.prediction->iterations, 0);
  EXPECT_EQ(view_.prediction->error,
            "the program marks no iteration, and rank 0 has not repeated its calls for three iterations yet");
  for (int time = 0; time < 3; ++time) {
    make(steady_);
  }
  ranks_.rank(1).finish(ranks_.rank(1).begin(call_of(1, first_op(1))));
  look(1);
  EXPECT_EQ(view_.prediction->error, "");
  EXPECT_EQ(view_.prediction->iterations, 1);
  EXPECT_EQ(view_.prediction->iteration, -1);
  EXPECT_EQ(view_.prediction->exact, calls_said());
  EXPECT_EQ(view_.prediction->missing + view_.prediction->extra + view_.prediction->size, 0);
}

TEST_F(PredictedJob, ThatMarksNoIterationsFires) {
  marks_ = false;
  for (std::int64_t second = 0; second < 7; ++second) {
    // Three iterations show that they repeat.
    EXPECT_EQ(look(second).alerts.size(), second < 3 ? 0U : 1U) << second;
    make(steady_, 100);
  }
  EXPECT_NE(view_.alerts[0].text.find("an iteration is not what 19M says: "), std::string::npos);
}

/// Another program, which repeats as many calls, none of which is in the configuration.
TEST_F(PredictedJob, ThatIsAnotherProgramWithoutMarksFires) {
  marks_ = false;
  const std::int64_t calls = calls_said() / 2;
  for (std::int64_t call = 0; call < 4 * calls; ++call) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = ranks_.rank(rank);
      const Elements elements{1'000'000 + call % calls};
      recorder.finish(
          recorder.begin({.kind = CommKind::all_to_all,
                          .dtype = DType::fp64,
                          .group = recorder.group({Rank{0}, Rank{1}}, Axis::unknown, CommunicatorId{9}),
                          .input = elements,
                          .output = elements,
                          .tag = {}}));
    }
  }
  look(0);
  EXPECT_EQ(view_.prediction->error, "");
  EXPECT_EQ(view_.prediction->iterations, 1);
  EXPECT_EQ(view_.prediction->exact, 0);
  EXPECT_EQ(view_.prediction->missing, calls_said());
  EXPECT_EQ(view_.prediction->extra, calls_said());
  ASSERT_EQ(view_.alerts.size(), 1U);
  EXPECT_EQ(view_.alerts[0].kind, "volume");
}

/// Rank 0 made calls of iteration 7 that its recorder could not write: nobody knows whether they were as
/// said.
TEST_F(PredictedJob, IsNotComparedWhereTheRecorderDroppedCalls) {
  make(5);
  make(6);
  EXPECT_EQ(look(0).prediction->iteration, 5);
  make_of(0, 7, 0, 1);
  make_of(1, 7);
  test_support::drop_calls(path_, 0, 1);
  make(8);
  look(11);
  for (Iteration iteration = 9; iteration <= 11; ++iteration) {
    EXPECT_EQ(view_.prediction->iterations, 1);
    make(iteration);
    look(10 + iteration);
  }
  EXPECT_EQ(view_.prediction->iteration, 10);  // 9 was the first one to be read after that
  EXPECT_EQ(view_.prediction->iterations, 2);
  EXPECT_EQ(view_.prediction->missing, 0);
  EXPECT_TRUE(view_.alerts.empty());
}

TEST_F(PredictedJob, NeedsNoTimesOfCalls) {
  make(5);
  for (std::int64_t call = 0; call < calls_said() / 2; ++call) {
    test_support::lose_time(path_, 0, static_cast<std::size_t>(call));
  }
  make(6);
  EXPECT_EQ(look(0).prediction->iteration, 5);
  EXPECT_EQ(view_.prediction->exact, calls_said());
  EXPECT_EQ(view_.prediction->missing + view_.prediction->extra + view_.prediction->size, 0);
}

/// Layers repeat before the first iteration is over.
TEST_F(PredictedJob, IsNotComparedByARepetitionWithinAnIteration) {
  marks_ = false;
  const std::int64_t calls = calls_said() / 2;
  for (std::int64_t call = 0; call < 3 * calls - 1; ++call) {
    ranks_.call(0);
    ranks_.call(1);
    look(call);
    EXPECT_EQ(view_.prediction->iterations, 0) << call;
  }
}

TEST_F(PredictedJob, WhoseRanksCallAGroupDifferentlyOftenIsNotCompared) {
  marks_ = false;
  for (std::int64_t time = 0; time < 8 * calls_said(); ++time) {
    ranks_.call(0, 8);
    ranks_.call(1, 8);
    if (time % calls_said() == 0) {
      ranks_.call(1, 16);
    }
  }
  look(0);
  EXPECT_EQ(view_.prediction->iterations, 0);
  EXPECT_NE(view_.prediction->error.find("different numbers of calls"), std::string::npos)
      << view_.prediction->error;
}

/// Every second one is different, and only these are looked at.
TEST_F(PredictedJob, DoesNotFireWhereOthersBetweenAreAsPredicted) {
  for (Iteration iteration = 5; iteration <= 25; ++iteration) {
    make(iteration, iteration % 2 == 0 ? 100 : 0);
    if (iteration % 2 == 1) {  // the one before is whole
      EXPECT_TRUE(look(iteration).alerts.empty()) << iteration;
    }
  }
  EXPECT_EQ(view_.prediction->in_a_row, 1);
  ranks_.close();
  look(26);
  look(27);
  EXPECT_EQ(view_.state, LiveState::ended);
  EXPECT_TRUE(view_.alerts.empty());
}

TEST_F(PredictedJob, ThatEndsWithoutANewIterationFires) {
  make(5, 100);
  make_of(0, 6, 100);
  make_of(1, 6, 100);
  look(0);
  EXPECT_EQ(view_.prediction->iteration, 5);
  EXPECT_TRUE(view_.alerts.empty());
  view_.state = LiveState::stopped;
  watch_.look(view_, follower_, at(1), false);
  EXPECT_EQ(view_.alerts.size(), 1U);
}

TEST_F(PredictedJob, ThatIsRemovedHasNoAlert) {
  make(5, 100);
  make(6, 100);
  ranks_.close();
  look(0);
  look(1);
  ASSERT_EQ(view_.alerts.size(), 1U);
  std::filesystem::remove_all(path_);
  look(2);
  EXPECT_EQ(view_.state, LiveState::removed);
  EXPECT_TRUE(view_.alerts.empty());
}

TEST(PredictionWatch, TakesAConfiguration) {
  ExpectedJob paper = said_job();
  paper.framework = "paper";
  EXPECT_FALSE(PredictionWatch::open(paper, {}));
  EXPECT_FALSE(PredictionWatch::open({.config = "/nowhere", .framework = {}, .overrides = {}}, {}));
}

/// Of layouts, what can be said before the job runs.
std::string opening_error(const std::function<void(Overrides&)>& change) {
  ExpectedJob expected = said_job();
  expected.overrides.dp.reset();
  change(expected.overrides);
  const Result<PredictionWatch> opened = PredictionWatch::open(expected, {});
  return opened ? "" : opened.error().message;
}

TEST(PredictionWatch, RefusesAtOnceWhatNoNumberOfRanksMakesPossible) {
  EXPECT_EQ(opening_error([](Overrides&) {}), "");
  EXPECT_EQ(opening_error([](Overrides& overrides) { overrides.tp = 2; }), "");
  const std::string heads = opening_error([](Overrides& overrides) { overrides.tp = 3; });
  EXPECT_EQ(heads.find("--predict 19M: "), 0U) << heads;
  EXPECT_NE(heads.find("heads"), std::string::npos) << heads;
  EXPECT_NE(opening_error([](Overrides& overrides) { overrides.pp = 5; }), "");  // of one layer
  const std::string world = opening_error([](Overrides& overrides) {
    overrides.tp = 2;
    overrides.ranks = 7;
  });
  EXPECT_EQ(world.find("--predict 19M: "), 0U) << world;
  EXPECT_NE(world.find('7'), std::string::npos) << world;
}

/// ZeRO++ needs a multiple of three data ranks here: a job may have as many.
TEST(PredictionWatch, LeavesToTheJobWhatItsNumberOfRanksDecides) {
  ExpectedJob expected = said_job();
  expected.framework = "deepspeed";
  expected.overrides.zero = 3;
  expected.overrides.hpz = 3;
  EXPECT_FALSE(PredictionWatch::open(expected, {}));  // of two data ranks
  expected.overrides.dp.reset();
  const Result<PredictionWatch> opened = PredictionWatch::open(expected, {});
  EXPECT_TRUE(opened) << opened.error().message;
}

}  // namespace
}  // namespace commlens
