// Predictions against recorded runs of the real frameworks, call by call, on every rank.
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/compare/compare.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "tests/golden/golden_cases.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

std::string text_of(const Difference& difference) {
  return std::string(name_of(difference.verdict)) + " " + std::string(name_of(difference.kind)) + " x" +
         std::to_string(difference.calls) + " rank " + std::to_string(difference.example_rank.value) +
         " iteration " + std::to_string(difference.example_iteration) + " predicted " +
         (difference.a ? std::to_string((difference.a->input * difference.a->dtype).value) : "-") +
         " recorded " +
         (difference.b ? std::to_string((difference.b->input * difference.b->dtype).value) : "-") + " " +
         difference.rule.name + " group of " + std::to_string(difference.group_size);
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PredictionEqualsTheRecordedRun) {
  const fs::path directory = golden_directory() / GetParam();
  const Result<Job> read = read_config({(directory / "case.yaml").string()}, "");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const Result<Job> job = validated(*read);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
  const Result<Plan> plan = make_plan(*job);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<Trace> recorded = formats::import_any(directory / "calls.jsonl.gz");
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  const Result<Comparison> result = compare(plan->trace(job->iterations), *recorded, {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (const Difference& difference : result->differences) {
    ADD_FAILURE() << text_of(difference);
  }
  EXPECT_TRUE(result->equal());
  EXPECT_EQ(result->order_differs, 0) << "ranks and iterations whose calls come in another order";
  EXPECT_GT(result->exact, 0);
  EXPECT_EQ(result->ranks, recorded->ranks());
  EXPECT_EQ(result->iterations, recorded->iterations());
}

INSTANTIATE_TEST_SUITE_P(Recorded, Golden, testing::ValuesIn(golden_cases()), golden_test_name);
INSTANTIATE_TEST_SUITE_P(RandomTorch, Golden, testing::ValuesIn(golden_cases_of_random_torch_jobs()),
                         golden_test_name);

TEST(GoldenDirectory, HoldsAllRecordedRuns) {
  EXPECT_EQ(golden_cases_of("deepspeed").size(), 46U);
  EXPECT_EQ(golden_cases_of("neox").size(), 13U);
  EXPECT_EQ(golden_cases_of("megatron").size(), 10U);
  EXPECT_EQ(golden_cases_of("torch_ddp").size(), 4U);
  EXPECT_EQ(golden_cases_of_random_torch_jobs().size(), 10U);
}

}  // namespace
}  // namespace commlens
