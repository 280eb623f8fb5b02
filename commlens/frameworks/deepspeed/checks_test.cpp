// What DeepSpeed refuses, by the sources of its releases (checks.cpp, release_checks.cpp).
#include <string>

#include <gtest/gtest.h>

#include "commlens/comm/event.hpp"
#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/case_file.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {
namespace {

/// A case of four ranks by a release, with these settings of DeepSpeed and options of the script.
Result<Plan> plan_of(const std::string& deepspeed, const std::string& options = "{}",
                     const std::string& release = "0.19.8", const std::string& precision = "fp32") {
  const std::string text =
      "framework: deepspeed\nframework_version: \"" + release +
      "\"\nranks: 4\niterations: 3\nprecision: " + precision +
      "\nmodel: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 16, vocab: 96}\nmicro_batch: 2\n"
      "deepspeed: {train_micro_batch_size_per_gpu: 2, " +
      deepspeed + "}\noptions: " + options + "\n";
  const Result<Job> job = job_from_case(parse_yaml("z/case.yaml", text).value());
  if (!job) {
    return tl::unexpected(job.error());
  }
  return validated(*job).and_then([](const Job& valid) { return make_plan(valid); });
}

/// The error holds `part`; empty: there is none.
testing::AssertionResult says(const Result<Plan>& plan, const std::string& part) {
  const std::string error = plan ? "" : plan.error().message;
  const bool holds = part.empty() ? error.empty() : error.find(part) != std::string::npos;
  return holds ? testing::AssertionSuccess() : testing::AssertionFailure() << "'" << error << "'";
}

std::int64_t calls_of(const Plan& plan, CommKind kind) {
  std::int64_t calls = 0;
  for (const PlanStep& step : plan.classes.front().at(0).steps) {
    calls += step.kind == PlanStep::Kind::call && plan.tables.op(step.op()).kind == kind ? 1 : 0;
  }
  return calls;
}

TEST(DeepSpeedChecks, KeysThatAReleaseRemovedAreRefusedAlsoSwitchedOff) {
  const std::string nebula = "nebula: {enabled: false}";
  EXPECT_TRUE(says(plan_of(nebula), "z/case.yaml:8: 'nebula': Nebula checkpointing has been removed"));
  EXPECT_TRUE(says(plan_of(nebula, "{}", "0.19.7"), "DeepSpeed 0.19.7 refuses the key"));
  EXPECT_TRUE(says(plan_of(nebula, "{}", "0.19.6"), ""));
  const std::string amp = "amp: {enabled: false}";
  EXPECT_TRUE(says(plan_of(amp), "'amp': NVIDIA Apex AMP integration has been removed"));
  EXPECT_TRUE(says(plan_of(amp, "{}", "0.19.7"), ""));
  EXPECT_TRUE(says(plan_of("zero_optimization: {stage: 3, mics_shard_size: -1}"), "MiCS ZeRO-3 sharding"));
}

TEST(DeepSpeedChecks, OlderReleasesHaveThemWithoutRulesHere) {
  const std::string no_rules = "has no rules here";
  EXPECT_TRUE(says(plan_of("zero_optimization: {stage: 3, mics_shard_size: 2}", "{}", "0.16.9"), no_rules));
  EXPECT_TRUE(says(plan_of("zero_optimization: {stage: 3, mics_shard_size: -1}", "{}", "0.16.9"), ""));
  EXPECT_TRUE(says(plan_of("sparse_gradients: true", "{}", "0.16.9"), no_rules));
  EXPECT_TRUE(says(plan_of("sparse_gradients: false", "{}", "0.16.9"), ""));
  EXPECT_TRUE(says(plan_of("compression_training: {weight_quantization: {}}", "{}", "0.16.9"), no_rules));
  EXPECT_TRUE(says(plan_of("curriculum_learning: {enabled: true}", "{}", "0.16.9"), no_rules));
}

TEST(DeepSpeedChecks, WithoutZeroGradientsAreSummedInTheDtypeOfTheModel) {
  const auto summed_in = [](const char* dtype) {
    return std::string("data_types: {grad_accum_dtype: ") + dtype + "}, ";
  };
  const std::string bf16 = "bf16: {enabled: true}";
  EXPECT_TRUE(says(plan_of(summed_in("fp32") + bf16, "{}", "0.19.8", "bf16"), "unsupported mix"));
  EXPECT_TRUE(says(plan_of(summed_in("fp32") + bf16, "{}", "0.18.4", "bf16"), ""));
  EXPECT_TRUE(says(plan_of(summed_in("bf16") + bf16, "{}", "0.19.8", "bf16"), ""));
  EXPECT_TRUE(says(plan_of(summed_in("bf16") + bf16, "{}", "0.16.9", "bf16"), "unsupported mix"));
  EXPECT_TRUE(
      says(plan_of(summed_in("fp32") + "fp16: {enabled: true}", "{}", "0.14.0", "fp16"), "unsupported mix"));
}

TEST(DeepSpeedChecks, AveragingThatZeroAssertsIsRefused) {
  const auto zero = [](int stage) { return "zero_optimization: {stage: " + std::to_string(stage) + "}"; };
  EXPECT_TRUE(says(plan_of("prescale_gradients: true, " + zero(2)), "prescale_gradients"));
  EXPECT_TRUE(says(plan_of("gradient_predivide_factor: 2, " + zero(3)), "gradient_predivide_factor"));
  EXPECT_TRUE(says(plan_of("prescale_gradients: true, " + zero(1)), ""));
  EXPECT_TRUE(says(plan_of("gradient_allreduce_op: sum, " + zero(3)), "refused by DeepSpeed under ZeRO-3"));
  EXPECT_TRUE(says(plan_of("gradient_allreduce_op: sum, " + zero(2)), ""));
}

TEST(DeepSpeedChecks, TheNormSwitchIsForStages1And2) {
  const std::string off = "gradient_clipping: 0.0, zero_optimization: {compute_grad_norm: false, stage: ";
  EXPECT_TRUE(says(plan_of(off + "1}"), ""));
  EXPECT_TRUE(says(plan_of(off + "3}"), "is for ZeRO-1 and 2"));
  EXPECT_TRUE(says(plan_of(off + "0}"), "is for ZeRO-1 and 2"));
  EXPECT_TRUE(says(plan_of(off + "1}, bf16: {enabled: true}, data_types: {grad_accum_dtype: fp32}", "{}",
                           "0.19.8", "bf16"),
                   "summed in fp32"));
}

TEST(DeepSpeedChecks, UnmanagedAccumulationOverlapsUnderZero2Alone) {
  const auto overlapping = [](int stage) {
    return "managed_gradient_accumulation: false, zero_optimization: {overlap_comm: true, stage: " +
           std::to_string(stage) + "}";
  };
  EXPECT_TRUE(says(plan_of(overlapping(1)), "overlap_comm"));
  EXPECT_TRUE(says(plan_of(overlapping(2)), ""));
}

TEST(DeepSpeedChecks, NamesThatTheModelLacksAreRefused) {
  EXPECT_TRUE(says(plan_of("", "{frozen: [blocks.0.fc1.bias]}"), ""));
  EXPECT_TRUE(says(plan_of("", "{frozen: [block.0]}"), "no parameter's name begins with 'block.0'"));
  EXPECT_TRUE(says(plan_of("", "{lora: {targets: [q_proj], rank: 4}}"), "has no linear 'q_proj'"));
  const std::string zero3 = "zero_optimization: {stage: 3}";
  EXPECT_TRUE(
      says(plan_of(zero3, "{gathered_parameters: {modules: [blocks.7]}}"), "the model has no 'blocks.7'"));
}

/// One bias of 256 elements less in the reduction of all gradients.
TEST(DeepSpeedChecks, AFrozenParameterMayBeNamedWhole) {
  const auto reduced = [](const std::string& options) {
    const Plan plan = plan_of("gradient_clipping: 0.0", options).value();
    for (const PlanStep& step : plan.classes.front().at(0).steps) {
      if (step.kind == PlanStep::Kind::call) {
        return plan.tables.op(step.op()).input.value;
      }
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(reduced("{}") - reduced("{frozen: [blocks.0.fc1.bias]}"), 256);
}

/// checkpoint.tag_validation: Ignore leaves out the two comparisons of the tag's hash.
TEST(DeepSpeedChecks, TagsAreComparedUnlessIgnored) {
  const auto reductions = [](const std::string& mode) {
    return calls_of(plan_of("checkpoint: {tag_validation: " + mode + "}, gradient_clipping: 0.0",
                            "{save_checkpoint_after_iteration: 0}")
                        .value(),
                    CommKind::all_reduce);
  };
  EXPECT_EQ(reductions("Warn"), 3);
  EXPECT_EQ(reductions("Fail"), 3);
  EXPECT_EQ(reductions("Ignore"), 1);
  EXPECT_TRUE(says(plan_of("checkpoint: {tag_validation: Never}"), "it is Ignore, Warn or Fail"));
}

/// torch_autocast takes a class by every name that leads to it; an empty list casts nothing.
TEST(DeepSpeedChecks, AutocastCastsTheClassesThatAreNamed) {
  const auto has_bf16 = [](const std::string& classes) {
    const Plan plan = plan_of("torch_autocast: {enabled: true, dtype: bfloat16" + classes +
                              "}, zero_optimization: {stage: 2}")
                          .value();
    for (const PlanStep& step : plan.classes.front().at(0).steps) {
      if (step.kind == PlanStep::Kind::call && plan.tables.op(step.op()).dtype == DType::bf16) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(has_bf16(""));
  EXPECT_TRUE(has_bf16(", lower_precision_safe_modules: [torch.nn.Linear]"));
  EXPECT_TRUE(has_bf16(", lower_precision_safe_modules: [torch.nn.modules.linear.Linear]"));
  EXPECT_FALSE(has_bf16(", lower_precision_safe_modules: []"));
}

}  // namespace
}  // namespace commlens
