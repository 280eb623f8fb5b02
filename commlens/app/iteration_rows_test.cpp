#include "commlens/app/iteration_rows.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/recording_check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/report/table_json.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;

/// Two data ranks, 2 x 3 sequences of 10 tokens each.
Job small_job() {
  Job job;
  job.framework = "commlens";
  job.model.layers = 2;
  job.model.hidden = 8;
  job.model.heads = 2;
  job.model.sequence = job.model.max_positions = 10;
  job.model.vocab = job.model.raw_vocab = 16;
  job.layout.dp = 2;
  job.train.micro_batch = 2;
  job.train.micro_batches = 3;
  return validated(job).value();
}

engine::IterationReport iteration_of(std::int64_t number, std::chrono::nanoseconds time,
                                     std::chrono::nanoseconds blocked) {
  engine::IterationReport iteration;
  iteration.iteration = number;
  iteration.loss = 2.5;
  iteration.learning_rate = 0.001;
  iteration.time = time;
  iteration.communication.blocked[static_cast<std::size_t>(CommKind::all_reduce)] = blocked;
  iteration.communication.calls[static_cast<std::size_t>(CommKind::all_reduce)] = 4;
  return iteration;
}

TEST(IterationRates, AreOfTheWholeJobAndOfOneRank) {
  const IterationRates rates = rates_of(iteration_of(0, 500ms, 100ms), small_job());
  EXPECT_DOUBLE_EQ(rates.time_s, 0.5);
  EXPECT_DOUBLE_EQ(rates.tokens_per_second, 240);  // 2 ranks x 2 x 3 x 10 tokens in half a second
  EXPECT_DOUBLE_EQ(rates.communication_share, 0.2);
}

TEST(MeanOfIterations, IsOfTimesAndCommunication) {
  const auto mean = mean_of({iteration_of(1, 100ms, 10ms), iteration_of(2, 300ms, 50ms)});
  EXPECT_EQ(mean.time, 200ms);
  EXPECT_EQ(mean.communication.blocked[static_cast<std::size_t>(CommKind::all_reduce)], 30ms);
}

TEST(IterationTable, LinesAreAsWideAsTheirTitles) {
  const IterationTable table(small_job(), {CommKind::reduce_scatter, CommKind::all_reduce}, {});
  const std::string line = table.line(iteration_of(7, 123456us, 12345us));
  EXPECT_EQ(line.size(), table.title_line().size());
  EXPECT_EQ(table.line(iteration_of(7, 1s, 1ms), true).size(), line.size());
  EXPECT_NE(line.find("  123.5   10.0 %"), std::string::npos) << line;
  EXPECT_TRUE(table.hidden().empty());
}

TEST(IterationTable, HidesTheLastOpsWhereTheTerminalIsNarrow) {
  const IterationTable table(small_job(), {CommKind::reduce_scatter, CommKind::all_reduce}, {.width = 86});
  EXPECT_LE(table.title_line().size(), 86u);
  EXPECT_NE(table.title_line().find("reduce_scatter"), std::string::npos);
  EXPECT_EQ(table.hidden(), std::vector<std::string>{"all_reduce"});
}

TEST(IterationTable, FitsEightyColumnsWithItsNote) {
  Job job = small_job();
  job.train.gradient_clipping = 1;
  EXPECT_LE(IterationTable(job, {}, {.width = 80}).title_line().size() + std::string("  cold").size(), 80u);
}

TEST(IterationJson, HasANormOnlyWhereGradientsAreClipped) {
  Job job = small_job();
  const engine::IterationReport iteration = iteration_of(3, 1s, 1ms);
  EXPECT_TRUE(rows_json(iterations_table({iteration}, job, 0))[0]["gradient_norm"].is_null());
  job.train.gradient_clipping = 1;
  EXPECT_EQ(rows_json(iterations_table({iteration}, job, 0))[0]["gradient_norm"], 0.0);
  EXPECT_EQ(rows_json(iterations_table({iteration}, job, 3))[0]["calls_rank_0"]["all_reduce"], 4);
}

TEST(RecordingCheck, CountsEveryCallOfEveryRank) {
  const Plan plan = make_plan(small_job()).value();
  const Trace recorded = plan.trace_of({0, 1});
  const RecordingCheck check = check_recording(plan, recorded, 0, 2);
  std::int64_t calls = 0;  // the bytes that the plan sends on two ranks in two iterations
  for (const RankStream& stream : recorded.streams) {
    calls += static_cast<std::int64_t>(stream.events.size()) * stream.ranks.count();
  }
  EXPECT_EQ(check.calls, calls);
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(check.all_equal());
  EXPECT_EQ(verdict_line(check),
            "prediction: " + std::to_string(calls) + " of " + std::to_string(calls) + " calls equal");
}

TEST(RecordingCheck, ShiftsThePredictionOfAResumedRun) {
  const Plan plan = make_plan(small_job()).value();
  EXPECT_TRUE(check_recording(plan, plan.trace_of({5, 6}), 5, 2).all_equal());
}

TEST(RecordingCheck, MissesWhatWasNotRecorded) {
  const Plan plan = make_plan(small_job()).value();
  Trace recorded = plan.trace_of({0});
  const std::int64_t ranks = recorded.streams.front().ranks.count();
  recorded.streams.front().events.pop_back();
  const RecordingCheck check = check_recording(plan, recorded, 0, 1);
  EXPECT_EQ(check.calls - check.equal, ranks);
  const RecordingCheck nothing = check_recording(plan, Trace(), 0, 1);
  EXPECT_EQ(nothing.equal, 0);
  EXPECT_GT(nothing.calls, 0);
}

}  // namespace
}  // namespace commlens
