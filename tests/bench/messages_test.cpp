// --messages: the rows are exactly the messages that predict lists.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "commlens/app/bench_messages.hpp"
#include "commlens/app/layout_options.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;

struct Configuration {
  const char* framework;
  LayoutValues flags;
};

const std::vector<Configuration>& configurations() {
  static const std::vector<Configuration> list = {
      {"deepspeed", {{"--ranks", "4"}, {"--zero", "0"}}},
      {"deepspeed", {{"--ranks", "4"}, {"--zero", "1"}}},
      {"deepspeed", {{"--ranks", "4"}, {"--zero", "2"}}},
      {"deepspeed", {{"--ranks", "4"}, {"--zero", "3"}}},
      {"megatron", {{"--ranks", "4"}, {"--tp", "2"}, {"--global-batch", "8"}}},
      {"megatron", {{"--ranks", "4"}, {"--pp", "2"}, {"--micro-batches", "4"}}},
      {"megatron", {{"--ranks", "8"}, {"--tp", "2"}, {"--pp", "2"}, {"--sp", ""}}},
      {"neox", {{"--ranks", "4"}, {"--tp", "2"}, {"--zero", "1"}}},
      {"commlens", {{"--ranks", "4"}, {"--tp", "2"}, {"--pp", "2"}, {"--micro-batches", "2"}}},
      {"torch", {{"--ranks", "4"}}}};
  return list;
}

/// Op, type, message bytes and ranks of the group.
using Message = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;

/// An op of pairs is one message, whichever end calls it; parts may be unequal.
std::string base_op(std::string name) {
  if (name.ends_with("_v")) {
    name.resize(name.size() - 2);
  }
  return name == "recv" ? "send" : name;
}

TEST(BenchMessages, AreThoseOfThePrediction) {
  for (const Configuration& configuration : configurations()) {
    SCOPED_TRACE(fmt::format("{} {}", configuration.framework, configuration.flags));
    BenchRequest request;
    request.messages = {"19M"};
    request.framework = configuration.framework;
    request.overrides = *overrides_of(configuration.flags);
    PredictRequest predict_request;
    predict_request.config = request.messages;
    predict_request.framework = request.framework;
    predict_request.overrides = request.overrides;
    const Result<Prediction> prediction = predict(predict_request);
    ASSERT_TRUE(prediction) << prediction.error().message;
    const Result<BenchPlan> plan = bench_messages(request).and_then(
        [](const ModelMessages& messages) { return plan_of_messages(messages, {}); });
    ASSERT_TRUE(plan) << plan.error().message;

    std::map<Message, std::int64_t> expected;
    for (const BreakdownRow& row : prediction->rows) {
      if (!row.no_traffic()) {
        const Message message{base_op(std::string(name_of(row.kind))), std::string(name_of(row.dtype)),
                              row.message.value, row.group_size};
        expected[message] += row.calls * row.ranks.count();
      }
    }
    std::map<Message, std::int64_t> planned;
    for (const BenchPlanRow& row : plan->rows) {
      planned[{base_op(row.key.op), row.key.dtype, row.key.bytes, row.key.group_size}] +=
          *row.calls_all_ranks;
    }
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(planned, expected);
  }
}

TEST(BenchMessages, AreMadeInOneBufferWhereTrainersHaveOne) {
  BenchRequest request;
  request.messages = {"19M"};
  request.framework = "deepspeed";
  request.overrides = *overrides_of({{"--ranks", "4"}, {"--zero", "1"}});
  const Result<BenchPlan> plan = bench_messages(request).and_then(
      [](const ModelMessages& messages) { return plan_of_messages(messages, {}); });
  ASSERT_TRUE(plan) << plan.error().message;
  std::set<std::string> in_place;
  for (std::size_t place = 0; place < plan->rows.size(); ++place) {
    const BenchKey& key = plan->rows[place].key;
    EXPECT_EQ(key.in_place, plan->measured.rows[place].calls.front().timed.in_place);
    EXPECT_EQ(key.in_place, key.op == "all_reduce" || key.op == "broadcast" || key.op == "reduce") << key.op;
    in_place.insert(key.in_place ? key.op : "");
  }
  EXPECT_TRUE(in_place.contains("all_reduce"));
}

/// The plan of calls that ranks 0, 1 and 2 make, one line each.
BenchPlan plan_of_calls(const std::string& lines) {
  const ScratchDirectory directory;
  BenchRequest request;
  request.messages = {directory.write("calls.jsonl", lines)};
  const Result<BenchPlan> plan = bench_messages(request).and_then(
      [](const ModelMessages& messages) { return plan_of_messages(messages, {}); });
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : BenchPlan();
}

std::string call_line(int rank, const std::string& op, int input_bytes, int output_bytes) {
  return fmt::format(
      "{{\"rank\":{},\"iteration\":0,\"op\":\"{}\",\"dtype\":\"fp32\",\"input_bytes\":{},\"output_bytes\":{},"
      "\"group\":[0,1,2]}}\n",
      rank, op, input_bytes, output_bytes);
}

// Ranks give 8, 24 and 40 bytes, of which the second is a third of the sum, as an equal part would be.
TEST(BenchMessages, HaveTheirOwnUnequalParts) {
  for (const bool gathers : {true, false}) {
    std::string lines;
    for (int rank = 0; rank < 3; ++rank) {
      const int part = 8 + 16 * rank;
      lines +=
          gathers ? call_line(rank, "all_gather", part, 72) : call_line(rank, "reduce_scatter", 72, part);
    }
    const BenchPlan plan = plan_of_calls(lines);
    ASSERT_EQ(plan.rows.size(), 1U);
    EXPECT_EQ(plan.rows[0].key.op, gathers ? "all_gather_v" : "reduce_scatter_v");
    EXPECT_EQ(plan.rows[0].calls_all_ranks, 3);
    EXPECT_FALSE(plan.rows[0].assumes_parts);
    const bench::BenchCase& timed = plan.measured.rows[0].calls.front().timed;
    EXPECT_EQ(timed.parts, (std::vector<Elements>{{2}, {6}, {10}}));
    EXPECT_EQ(bench::sizes_of(timed, 1).input, Elements{gathers ? 6 : 18});
    EXPECT_EQ(bench::verified_parts(timed, 2).back().position, 8) << "behind the parts of the others";
  }
}

// Of an all_to_all, records have the sums alone.
TEST(BenchMessages, SayWhereTheyAssumeParts) {
  std::string lines;
  for (int rank = 0; rank < 3; ++rank) {
    lines += call_line(rank, "all_to_all", 40, 40);
  }
  const BenchPlan plan = plan_of_calls(lines);
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].key.op, "all_to_all_v");
  EXPECT_TRUE(plan.rows[0].assumes_parts);
  bench::Measured measured;
  measured.rows.resize(1);
  measured.rows[0].one.span_s = measured.rows[0].one.local_s = {1e-3};
  measured.rows[0].one.skew_s = {0};
  measured.rows[0].one.switches = {0};
  const BenchLaunch launch = launch_of(plan, measured, {}, false);
  EXPECT_EQ(launch.rows.at(0).stats.flags,
            (std::vector{bench::RowFlag::few_samples, bench::RowFlag::assumed_parts}));
}

TEST(BenchMessages, OfOneIterationTakeTheTimeOfTheirCalls) {
  BenchRun run;
  run.classes = {"rank 0", "ranks 1-3"};
  const BenchKey first{"all_reduce", "fp32", "dp", 4, 1024, false};
  const BenchKey second{"all_gather", "fp32", "dp", 4, 2048, false};
  run.planned = {{first, 2, 8, {2, 3}}, {second, 5, 20, {5, 1}}};
  BenchLaunch& launch = run.launches.emplace_back();
  launch.rows.resize(2);
  launch.rows[0].key = first;
  launch.rows[0].stats.p50_s = 1e-3;
  launch.rows[1].key = second;
  launch.rows[1].stats.p50_s = 2e-3;
  const std::optional<BenchStep> step = step_of(run);
  ASSERT_TRUE(step);
  EXPECT_DOUBLE_EQ(step->total_s, 0.012);  // 2 x 1 ms + 5 x 2 ms; the others 3 x 1 ms + 2 ms
  EXPECT_EQ(step->ranks, "rank 0");
}

}  // namespace
}  // namespace commlens
