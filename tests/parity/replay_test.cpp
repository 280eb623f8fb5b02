// Replays of what every layout sends make the same calls.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "commlens/bench/replay_plan.hpp"
#include "commlens/bench/replay_run.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/thread_ranks.hpp"
#include "parity/layouts.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

/// The recording of a replay over threads.
Trace replay_of(const Trace& trace, bench::ReplayPace pace) {
  const std::filesystem::path directory = scratch_directory("replay");
  const Result<bench::ReplayPlan> plan = bench::replay_plan(trace, {});
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return {};
  }
  const auto ranks = static_cast<std::int64_t>(plan->ranks.size());
  create_recording(directory, {.producer = "test", .ranks = ranks, .is_replay = true});
  run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) {
    Recorder recorder(directory, Rank{world->rank().value});
    bench::ReplayRank rank(*plan, *world);
    rank.play({.pace = pace, .yields = true}, recorder);
  });
  finish_recording(directory);
  return read_trace(directory).value();
}

void expect_equal_calls(const Trace& original, const Trace& again, std::int64_t ranks) {
  const Result<Comparison> comparison = compare(original, again, {});
  ASSERT_TRUE(comparison) << comparison.error().message;
  EXPECT_TRUE(comparison->equal()) << comparison->missing << " missing, " << comparison->extra << " extra, "
                                   << comparison->size << " of another size";
  EXPECT_GT(comparison->exact, 0);
  EXPECT_EQ(comparison->exact, comparison->calls_a);
  EXPECT_EQ(comparison->ranks, ranks);
  EXPECT_TRUE(comparison->only_a.empty());
}

class ReplayOfLayout : public testing::TestWithParam<Layout> {};

TEST_P(ReplayOfLayout, OfItsPredictionMakesEqualCalls) {
  const Job job = validated(job_of(GetParam())).value();
  if (job.layout.ranks == 1) {
    GTEST_SKIP() << "one rank sends nothing";
  }
  const Trace predicted = make_plan(job).value().trace(2);
  expect_equal_calls(predicted, replay_of(predicted, bench::ReplayPace::back_to_back), job.layout.ranks);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplayOfLayout, testing::ValuesIn(layouts()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

class ReplayOfTraining : public testing::TestWithParam<const char*> {};

TEST_P(ReplayOfTraining, MakesEqualCalls) {
  const auto layout = std::find_if(layouts().begin(), layouts().end(),
                                   [](const Layout& each) { return std::string(each.name) == GetParam(); });
  ASSERT_NE(layout, layouts().end());
  const TrainingRun run = train_on_threads("trained", job_of(*layout), {.iterations = 2});
  const Trace recorded = read_trace(run.trace).value();
  for (const bench::ReplayPace pace : {bench::ReplayPace::gaps, bench::ReplayPace::back_to_back}) {
    expect_equal_calls(recorded, replay_of(recorded, pace), recorded.ranks());
  }
}

INSTANTIATE_TEST_SUITE_P(Trained, ReplayOfTraining,
                         testing::Values("zero3_odd", "pp2_interleaved", "zero3_tp2_pp2_interleaved",
                                         "gptj_tp2_sp_pp2_full", "zero3_plus_plus_tied_pp2"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace commlens::engine
