#include "commlens/report/regression_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Twenty iterations: steps alike, an all_reduce 10 % slower.
Regression sample_regression() {
  Regression regression;
  const RegressionRow step{.is_step = true,
                           .iterations_a = 19,
                           .iterations_b = 19,
                           .a = nanoseconds(1000),
                           .b = nanoseconds(1000)};
  const RegressionRow slow{.kind = CommKind::all_reduce,
                           .axis = Axis::dp,
                           .phase = Phase::backward,
                           .calls = 8,
                           .iterations_a = 20,
                           .iterations_b = 20,
                           .a = nanoseconds(100'000),
                           .b = nanoseconds(110'000),
                           .p = 1e-6,
                           .p_adjusted = 2e-6,
                           .is_slower = true};
  regression.rows = {step, slow};
  regression.iterations_needed = 8;
  return regression;
}

TEST(RegressionText, BeginsWithTheVerdictAndNamesTheRow) {
  const std::string text = regression_text(sample_regression(), {});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "regression: 1 of 2 rows are slower in B by more than 5 %, significantly");
  EXPECT_NE(
      text.find("all_reduce  dp    backward      8     20 / 20   100 µs   110 µs  1.100  < 0.0001  slower"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("too few"), std::string::npos);
}

TEST(RegressionText, SaysWhenIterationsAreTooFew) {
  Regression few = sample_regression();
  few.rows.pop_back();
  few.rows.front().iterations_a = few.rows.front().iterations_b = 3;
  const std::string text = regression_text(few, {});
  EXPECT_EQ(text.substr(0, 13), "no regression");
  EXPECT_NE(text.find("with 9 steady iterations in each run all can"), std::string::npos) << text;
}

TEST(RegressionText, NamesTransportsWithoutProgress) {
  Regression one = sample_regression();
  one.progress_a = true;
  EXPECT_EQ(regression_text(one, {}).find("without progress"), std::string::npos);
  one.progress_b = false;
  EXPECT_NE(regression_text(one, {}).find("\nB: transport without progress: overlap not meaningful"),
            std::string::npos);
  one.progress_a = false;
  EXPECT_NE(regression_text(one, {}).find("\nA and B: transport without progress"), std::string::npos);
  EXPECT_EQ(regression_json(one)["progress_a"], false);
}

TEST(RegressionJson, HasBothMediansAndTheTest) {
  const nlohmann::ordered_json json = regression_json(sample_regression());
  EXPECT_EQ(json["regressed"], true);
  EXPECT_EQ(json["rows"][1]["verdict"], "slower");
  EXPECT_EQ(json["rows"][1]["time_b_ns"], 110'000);
  EXPECT_DOUBLE_EQ(json["rows"][1]["ratio"].get<double>(), 1.1);
}

TEST(RegressionCsv, HasALinePerRow) {
  const std::string csv = regression_csv(sample_regression());
  EXPECT_NE(csv.find("all_reduce,dp,backward,8,20,20,100000,110000,1.1,1e-06,2e-06,slower,\n"),
            std::string::npos)
      << csv;
}

}  // namespace
}  // namespace commlens
