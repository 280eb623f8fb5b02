// Predictions against recorded runs of the real frameworks, call by call, on every rank.
#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
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

/// How often a rank makes each call in each iteration that both have, with the reduction asked for.
using Calls = std::map<std::tuple<std::int64_t, Iteration, CommKind, DType, std::int64_t, Reduction>, int>;

/// Of the ranks and iterations that `recorded` has.
Calls calls_of(const Trace& trace, const Trace& recorded) {
  const std::vector<Iteration> iterations = recorded.iterations();
  Calls calls;
  for (const RankStream& stream : recorded.streams) {
    for (const Rank rank : stream.ranks) {
      for (const CommEvent& event : trace.stream_of(rank)->events) {
        const CommOp& op = trace.op(event.op);
        const bool is_in_both =
            std::find(iterations.begin(), iterations.end(), event.iteration) != iterations.end();
        if (is_in_both && op.kind != CommKind::barrier && op.match == Match::exact) {
          ++calls[{rank.value, event.iteration, op.kind, op.dtype, op.input.value, op.reduction}];
        }
      }
    }
  }
  return calls;
}

bool has_reductions(const Trace& trace) {
  return std::any_of(trace.ops().begin(), trace.ops().end(),
                     [](const CommOp& op) { return op.reduction != Reduction::unknown; });
}

/// Of a big world a few ranks are recorded.
std::int64_t ranks_of(const Trace& trace) {
  std::int64_t ranks = 0;
  for (const RankStream& stream : trace.streams) {
    ranks += stream.ranks.count();
  }
  return ranks;
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
  // NCCL enqueues the send of a bracket before its receive, whichever was asked for first: two ranks connect
  // so.
  const std::int64_t brackets = GetParam() == "torch_nccl/pp2_fsdp2_S_1f1b_m4" ? 2 : 0;
  EXPECT_EQ(result->order_differs, brackets) << "ranks and iterations whose calls come in another order";
  EXPECT_GT(result->exact, 0);
  if (has_reductions(*recorded)) {
    EXPECT_EQ(calls_of(plan->trace(job->iterations), *recorded), calls_of(*recorded, *recorded));
  }
  EXPECT_EQ(result->ranks, ranks_of(*recorded));
  EXPECT_EQ(result->iterations, recorded->iterations());
}

INSTANTIATE_TEST_SUITE_P(Recorded, Golden, testing::ValuesIn(golden_cases(golden_frameworks())),
                         golden_test_name);
INSTANTIATE_TEST_SUITE_P(RandomTorch, Golden, testing::ValuesIn(golden_cases_of_random_torch_jobs()),
                         golden_test_name);

INSTANTIATE_TEST_SUITE_P(OverNccl, Golden, testing::ValuesIn(golden_cases_over_nccl()), golden_test_name);
INSTANTIATE_TEST_SUITE_P(MoreDeepSpeed, Golden, testing::ValuesIn(golden_cases_of_more_deepspeed_jobs()),
                         golden_test_name);
INSTANTIATE_TEST_SUITE_P(MoreMegatron, Golden, testing::ValuesIn(golden_cases_of_more_megatron_jobs()),
                         golden_test_name);
INSTANTIATE_TEST_SUITE_P(MoreTitan, Golden, testing::ValuesIn(golden_cases_of_more_titan_jobs()),
                         golden_test_name);
INSTANTIATE_TEST_SUITE_P(MoreHf, Golden, testing::ValuesIn(golden_cases_of_more_hf_jobs()), golden_test_name);

/// Cases that DeepSpeed itself refused when they were to be recorded.
TEST(GoldenRefused, IsRefusedWithDeepSpeedsReason) {
  const std::map<std::string, std::string> reasons = {
      {"0.19.2_aep2_z3", "DeepSpeed 0.19.2 has no expert_parallel under ZeRO-3"},
      {"0.19.8_ep2_mp2_capacity", "15 tokens of an expert are not divisible by 2 model-parallel ranks"},
      {"z0_S_w4_bf16_gacc32",
       "unsupported mix of model_dtype=torch.bfloat16 and grad_accum_dtype=torch.float32"},
      {"z0_amp_off", "NVIDIA Apex AMP integration has been removed"},
      {"z0_nebula_off_0.19.7", "Nebula checkpointing has been removed"},
      {"z3_S_w4_fp32_p0_mics2", "MiCS ZeRO-3 sharding has been removed"},
      {"0.18.9_z3_mesh", "no ZeRO-3 over more than the data ranks"},
      {"0.19.8_z3_ODD_qwz", "multiple of 8"},
      {"0.19.8_z3_qgz_part_of_node", "not whole nodes of 2"}};
  EXPECT_EQ(golden_cases_of("deepspeed_refused").size(), reasons.size());
  for (const auto& [name, reason] : reasons) {
    const fs::path file = golden_directory() / "deepspeed_refused" / name / "case.yaml";
    const Result<Job> read = read_config({file.string()}, "");
    const Result<Job> job = read ? validated(*read) : read;
    const Result<Plan> plan = job ? make_plan(*job) : tl::unexpected(job.error());
    ASSERT_FALSE(plan.has_value()) << name;
    EXPECT_NE(plan.error().message.find(reason), std::string::npos) << plan.error().message;
  }
}

TEST(GoldenDirectory, HoldsAllRecordedRuns) {
  EXPECT_EQ(golden_cases_of("deepspeed").size(), 46U);
  EXPECT_EQ(golden_cases_of("deepspeed_0.19").size(), 87U);
  EXPECT_EQ(golden_cases_of("deepspeed_versions").size(), 27U);
  EXPECT_EQ(golden_cases_of("neox").size(), 13U);
  EXPECT_EQ(golden_cases_of("megatron").size(), 10U);
  EXPECT_EQ(golden_cases_of("megatron_0.19").size(), 76U);
  EXPECT_EQ(golden_cases_of("megatron_versions").size(), 37U);
  EXPECT_EQ(golden_cases_of_more_megatron_jobs().size(), 115U);
  EXPECT_EQ(golden_cases_of("torch_ddp").size(), 4U);
  EXPECT_EQ(golden_cases_of("torch").size(), 106U);
  EXPECT_EQ(golden_cases_of("torch_2.6").size(), 19U);
  EXPECT_EQ(golden_cases_of("torch_2.9").size(), 24U);
  EXPECT_EQ(golden_cases_of("torch_2.10").size(), 7U);
  EXPECT_EQ(golden_cases_of("torch_2.12").size(), 10U);
  EXPECT_EQ(golden_cases_of("torch_nccl").size(), 5U);
  EXPECT_EQ(golden_cases_of("torchtitan").size(), 37U);
  EXPECT_EQ(golden_cases_of_more_titan_jobs().size(), 36U);
  EXPECT_EQ(golden_cases_of("hf").size(), 9U);
  EXPECT_EQ(golden_cases_of_more_hf_jobs().size(), 17U);
  EXPECT_EQ(golden_cases_of_random_torch_jobs().size(), 15U);
}

}  // namespace
}  // namespace commlens
