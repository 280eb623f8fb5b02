#include "commlens/app/predict.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

PredictRequest paper_zero3() {
  PredictRequest request;
  request.config = {"1.3B"};
  request.framework = "paper";
  request.overrides.ranks = 16;
  request.overrides.zero = 3;
  return request;
}

// ZeRO-3 by the paper: 3 P (d-1)/d elements of 2 bytes; by Eq. 1 P = 1,418,596,352, so 3 * P * 15 / 16 * 2.
TEST(Predict, CountsWhatTheEquationSays) {
  const Result<Prediction> prediction = predict(paper_zero3());
  ASSERT_TRUE(prediction) << prediction.error().message;
  EXPECT_EQ(prediction->per_rank.wire, Bytes{7'979'604'480});
  EXPECT_EQ(prediction->aggregate_wire, Bytes{16 * 7'979'604'480});
  EXPECT_EQ(prediction->view.framework_choice, FrameworkChoice::flag);
}

TEST(Predict, RefusesWhatACommandLineCannotAskFor) {
  PredictRequest request = paper_zero3();
  request.config.clear();
  EXPECT_EQ(predict(request).error().message,
            "no configuration is given; name a file, or a model such as 1.3B");
  request = paper_zero3();
  request.view.iteration = "warm";
  EXPECT_EQ(predict(request).error().message, "--iteration warm: choose init, cold or steady");
  request = paper_zero3();
  request.view.rank = Rank{-1};
  EXPECT_EQ(predict(request).error().message, "--rank -1: the job has ranks 0 to 15");
  EXPECT_FALSE(sweep({}).has_value());
}

TEST(Predict, WarnsThroughItsRequest) {
  std::vector<std::string> warnings;
  SweepRequest request;
  request.config = {"1.3B"};
  request.frameworks = {"deepspeed"};
  request.combinations = combinations_of({{"--ranks", "8,16"}}).value();
  request.events.warning = [&](const std::string& warning) { warnings.push_back(warning); };
  const Result<Sweep> result = sweep(request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->rows.size(), 2U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "the rows do different work, 32 to 64 sequences per iteration; --global-batch N holds it fixed");
}

TEST(WriteCalls, GivesTheCallsOfOneRank) {
  PredictRequest request = paper_zero3();
  request.framework = "deepspeed";
  request.overrides.iterations = 1;
  const Result<Plan> plan = plan_of(request);
  ASSERT_TRUE(plan) << plan.error().message;
  std::string text;
  ASSERT_TRUE(write_calls(*plan, Rank{3}, [&](std::string_view block) { text += block; }, {}));
  EXPECT_EQ(text.find("\"rank\":3,"), 1U);
  EXPECT_EQ(text.find("\"rank\":4,"), std::string::npos);
}

}  // namespace
}  // namespace commlens
