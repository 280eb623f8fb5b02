#include "commlens/app/model_messages.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include <gtest/gtest.h>

#include "commlens/app/predict.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;

MessagesRequest zero3() {
  MessagesRequest request{.input = {"19M"}, .framework = "deepspeed"};
  request.overrides.dp = 4;
  request.overrides.zero = 3;
  return request;
}

TEST(ModelMessages, AreThoseOfThePrediction) {
  const Result<ModelMessages> found = model_messages(zero3());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->job_ranks, 4);
  PredictRequest asked;
  asked.config = {"19M"};
  asked.framework = "deepspeed";
  asked.overrides = zero3().overrides;
  const Result<Prediction> prediction = predict(asked);
  ASSERT_TRUE(prediction);
  double calls = 0;
  for (const ModelMessage& message : found->messages) {
    calls += message.calls_of_class.at(0);
  }
  EXPECT_EQ(calls, static_cast<double>(prediction->per_rank.calls));
  for (const BreakdownRow& row : prediction->rows) {
    const CommOp& op = prediction->trace.op(row.op);
    EXPECT_EQ(std::count_if(found->messages.begin(), found->messages.end(),
                            [&](const ModelMessage& one) {
                              return one.kind == op.kind && one.dtype == op.dtype && one.input == op.input &&
                                     one.output == op.output && one.ranks == row.group_size;
                            }),
              1);
  }
}

TEST(ModelMessages, WeighWhatEachClassOfRanksMakes) {
  MessagesRequest request{.input = {"19M"}, .framework = "deepspeed"};
  request.overrides.pp = 2;
  request.overrides.dp = 2;
  request.overrides.zero = 1;
  const Result<ModelMessages> found = model_messages(request);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(std::accumulate(found->ranks_of_class.begin(), found->ranks_of_class.end(), std::int64_t{0}), 4);
  double sent = 0;
  double received = 0;
  for (const ModelMessage& message : found->messages) {
    EXPECT_EQ(message.calls_of_class.size(), found->classes.size());
    sent += message.kind == CommKind::send ? job_calls(message, found->ranks_of_class) : 0;
    received += message.kind == CommKind::recv ? job_calls(message, found->ranks_of_class) : 0;
  }
  EXPECT_GT(sent, 0);
  EXPECT_EQ(sent, received);
}

/// One rank's all_reduce of 16 bytes in iteration 0, and of 64 bytes twice in 1 and four times in 2.
const std::string k_calls = [] {
  std::string lines;
  const auto add = [&](int iteration, int bytes, const std::string& more) {
    lines += R"({"rank":0,"iteration":)" + std::to_string(iteration) +
             R"(,"op":"all_reduce","dtype":"fp32","input_bytes":)" + std::to_string(bytes) +
             R"(,"output_bytes":)" + std::to_string(bytes) + R"(,"group":)" + more + "}\n";
  };
  add(0, 16, "[0,1]");
  for (const int iteration : {1, 1, 2, 2, 2, 2}) {
    add(iteration, 64, "[0,1]");
  }
  add(2, 64, "[0]");
  return lines;
}();

TEST(ModelMessages, OfATraceAreTheMeanOfItsWarmIterations) {
  const ScratchDirectory directory;
  const Result<ModelMessages> found = model_messages({.input = {directory.write("calls.jsonl", k_calls)}});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->messages.size(), 1U);
  EXPECT_EQ(found->iterations, 2);
  EXPECT_EQ(found->messages[0].input, Elements{16});
  EXPECT_EQ(found->messages[0].calls_of_class, std::vector<double>{3});
  const std::map<std::string, double> alone{{"groups of one rank", 0.5}};
  EXPECT_EQ(found->left_out, alone);
}

TEST(ModelMessages, OfATraceMayBeOfChosenIterations) {
  const ScratchDirectory directory;
  const std::string file = directory.write("calls.jsonl", k_calls);
  EXPECT_EQ(model_messages({.input = {file}, .iterations = "0"})->messages.at(0).input, Elements{4});
  EXPECT_EQ(model_messages({.input = {file}, .iterations = "7"}).error().message,
            "--iteration 7: " + file + " has none of these");
}

TEST(ModelMessages, RefuseFlagsOfTheOtherKindOfInput) {
  const ScratchDirectory directory;
  MessagesRequest trace{.input = {directory.write("calls.jsonl", k_calls)}, .framework = "deepspeed"};
  EXPECT_NE(model_messages(trace).error().message.find("--framework and the layout flags"),
            std::string::npos);
  MessagesRequest configuration = zero3();
  configuration.iterations = "1-";
  EXPECT_EQ(model_messages(configuration).error().message,
            "--iteration chooses iterations of a trace; a configuration has its steady one");
}

TEST(ModelMessages, RefuseAJobOfOneRank) {
  MessagesRequest request = zero3();
  request.overrides.dp = 1;
  EXPECT_EQ(model_messages(request).error().message.substr(0, 55),
            "19M: no call of the iteration moves anything between ra");
}

}  // namespace
}  // namespace commlens
