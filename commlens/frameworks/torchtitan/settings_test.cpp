#include "commlens/frameworks/torchtitan/settings.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torchtitan/arguments.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"

namespace commlens::torchtitan {
namespace {

Job job_of_words(const std::string& text) {
  const auto words = argument_words("run.args", text);
  return job_of_arguments(settings_of_arguments("run.args", *words).value()).value();
}

Job with_flags(const Job& job, const Overrides& flags) {
  const Result<Job> changed = with_overrides(job, flags).and_then(validated);
  EXPECT_TRUE(changed) << changed.error().message;
  return changed.value_or(Job{});
}

Job job_of_preset(std::string_view name, const Overrides& flags) {
  return with_flags(with_framework(preset(name).value(), k_name), flags);
}

/// models/llama3/config_registry.py of 0.3.0, llama3_8b and llama3_70b.
TEST(TitanSettings, BuiltInModelsHaveThoseOfTheirConfiguration) {
  const Job job = job_of_preset("llama3-8b", {.ranks = 64});
  EXPECT_EQ(job.layout.dp, 64);
  EXPECT_EQ(job.model.sequence, 8192);
  EXPECT_EQ(job.train.micro_batch, 1);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.recompute, Recompute::selective);
  EXPECT_EQ(job.train.dtype, DType::fp32);
  EXPECT_EQ(job.train.gradient_clipping, 1.0);
  EXPECT_EQ(options(job).param_dtype, DType::bf16);
  EXPECT_EQ(options(job).flavour, "8B");
  EXPECT_EQ(options(job).loss_chunks, 8);
  EXPECT_FALSE(options(job).balances_experts);
  ASSERT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(job.warnings[0],
            "torchtitan's own settings of llama3_8b: 1 sequence of 8192 tokens a rank; flags change them");
  const Job large = job_of_preset("llama3-70b", {.ranks = 256});
  EXPECT_EQ(large.layout.tp, 8);
  EXPECT_EQ(large.layout.dp, 32);
  EXPECT_TRUE(large.layout.sequence_parallel);
  EXPECT_EQ(large.train.recompute, Recompute::full);
  EXPECT_EQ(job_of_preset("llama3-70b", {.ranks = 256, .tp = 2}).layout.dp, 128);
}

TEST(TitanSettings, BuiltInModelsAreFlavours) {
  constexpr std::pair<std::string_view, std::string_view> flavours[] = {{"llama3-8b", "8B"},
                                                                        {"llama3-70b", "70B"},
                                                                        {"llama3-405b", "405B"},
                                                                        {"llama3.2-1b", "1B"},
                                                                        {"llama3.2-3b", "3B"},
                                                                        {"qwen3-0.6b", "0.6B"},
                                                                        {"qwen3-1.7b", "1.7B"},
                                                                        {"qwen3-4b", "4B"},
                                                                        {"qwen3-8b", "8B"},
                                                                        {"qwen3-14b", "14B"},
                                                                        {"qwen3-32b", "32B"},
                                                                        {"qwen3-30b-a3b", "30B-A3B"},
                                                                        {"qwen3-235b-a22b", "235B-A22B"},
                                                                        {"deepseek-v2-lite", "16B"},
                                                                        {"deepseek-v2", "236B"},
                                                                        {"deepseek-v3", "671B"},
                                                                        {"gpt-oss-20b", "20b"},
                                                                        {"gpt-oss-120b", "120b"},
                                                                        {"llama2-7b", ""},
                                                                        {"mixtral-8x7b", ""}};
  for (const auto& [name, flavour] : flavours) {
    EXPECT_EQ(options(with_framework(preset(name).value(), k_name)).flavour, flavour) << name;
  }
}

TEST(TitanSettings, ModelsWithoutAConfigurationHaveTheDefaults) {
  const Job job = job_of_preset("llama3.2-1b", {.ranks = 8});
  EXPECT_EQ(job.model.sequence, 8192);  // the preset's
  EXPECT_EQ(job.train.micro_batch, 8);
  EXPECT_EQ(job.train.recompute, Recompute::selective);
  EXPECT_EQ(options(job).flavour, "1B");
  EXPECT_EQ(options(job).config, "");
  EXPECT_EQ(job_of_preset("mixtral-8x7b", {}).train.micro_batch, 8);
  EXPECT_TRUE(options(job_of_preset("mixtral-8x7b", {})).balances_experts);
}

/// llama3_405b converts its layers to Float8 and overlaps tensor parallelism: the rest of it is taken.
TEST(TitanSettings, SayWhatOfAConfigurationIsLeftOut) {
  const Job job = job_of_preset("llama3-405b", {.ranks = 512});
  EXPECT_EQ(job.layout.tp, 8);
  EXPECT_EQ(job.train.micro_batch, 2);
  EXPECT_EQ(
      job.warnings.at(0),
      "torchtitan's own settings of llama3_405b: 2 sequences of 8192 tokens a rank, tp 8, without Float8 "
      "linear layers and asynchronous tensor parallelism; flags change them");
}

TEST(TitanSettings, JobsOfOtherFrameworksKeepLayoutAndBatch) {
  Job job = preset("llama3-8b").value();
  job.framework = "deepspeed";
  job.is_converted = false;
  job.train.zero_stage = 3;
  job.train.micro_batch = 2;
  job.train.micro_batches = 4;
  job.layout.tp = 2;
  job.layout.ranks = 8;
  job.train.dtype = DType::fp16;
  const Job adopted = with_flags(with_framework(job, k_name), {});
  EXPECT_EQ(adopted.train.zero_stage, 0);
  EXPECT_EQ(adopted.train.micro_batch, 2);
  EXPECT_EQ(adopted.train.micro_batches, 4);
  EXPECT_FALSE(adopted.layout.sequence_parallel);
  EXPECT_EQ(adopted.train.recompute, Recompute::none);
  EXPECT_EQ(adopted.train.dtype, DType::fp32);
  EXPECT_EQ(options(adopted).param_dtype, DType::bf16);
  EXPECT_EQ(adopted.warnings.at(0), "torchtitan has no ZeRO: stage 3 of the configuration is skipped");
  EXPECT_EQ(adopted.warnings.at(1), "torchtitan has no fp16: parameters are gathered in bf16");
}

TEST(TitanSettings, SequenceParallelismFollowsTheTensorRanks) {
  const Job job = job_of_words("--module llama3 --config llama3_8b");
  EXPECT_FALSE(with_flags(job, {.ranks = 8}).layout.sequence_parallel);
  EXPECT_TRUE(with_flags(job, {.ranks = 8, .tp = 2}).layout.sequence_parallel);
  EXPECT_FALSE(with_flags(job, {.ranks = 8, .tp = 2, .sp = false}).layout.sequence_parallel);
  const Job without =
      job_of_words("--module llama3 --config llama3_70b --parallelism.no_enable_sequence_parallel");
  EXPECT_FALSE(with_flags(without, {.ranks = 8}).layout.sequence_parallel);
  EXPECT_TRUE(with_flags(without, {.ranks = 8, .sp = true}).layout.sequence_parallel);
}

/// Trainer.Config: a pipeline cuts the local batch into micro-batches of pipeline_parallel_microbatch_size.
TEST(TitanSettings, APipelineCutsTheBatch) {
  const Job job = job_of_words("--module llama3 --config llama3_8b --training.local_batch_size 8");
  const Job pipeline = with_flags(job, {.ranks = 8, .pp = 2});
  EXPECT_EQ(pipeline.train.micro_batch, 1);
  EXPECT_EQ(pipeline.train.micro_batches, 8);
  EXPECT_EQ(options(pipeline).accumulation_steps, 1);
  EXPECT_EQ(with_flags(pipeline, {.ranks = 8, .pp = 1}).train.micro_batch, 8);
  EXPECT_EQ(with_flags(pipeline, {.ranks = 8, .pp = 1}).train.micro_batches, 1);
  EXPECT_EQ(with_flags(job, {.ranks = 8, .pp = 2, .micro_batches = 16}).train.micro_batches, 16);
  const Job accumulates = with_flags(job, {.ranks = 8, .pp = 2, .global_batch = 64});
  EXPECT_EQ(accumulates.train.micro_batches, 16);  // 64 / 4 data ranks
  EXPECT_EQ(options(accumulates).accumulation_steps, 2);
}

TEST(TitanSettings, StagesFollowTheSchedule) {
  const Job job = job_of_words("--module llama3 --config llama3_8b");
  const Job single = with_flags(job, {.ranks = 8, .pp = 4});
  EXPECT_EQ(single.layout.virtual_stages, 1);
  EXPECT_EQ(options(single).schedule, pytorch::PipelineSchedule::one_f_one_b);
  const Job interleaved = with_flags(job, {.ranks = 8, .pp = 4, .schedule = Schedule::interleaved});
  EXPECT_EQ(interleaved.layout.virtual_stages, 2);
  EXPECT_EQ(options(interleaved).schedule, pytorch::PipelineSchedule::interleaved_1f1b);
  const Job four = with_flags(job, {.ranks = 8, .pp = 4, .virtual_stages = 4});
  EXPECT_EQ(four.layout.virtual_stages, 4);
  EXPECT_EQ(options(four).schedule, pytorch::PipelineSchedule::interleaved_1f1b);
  const Job debug = job_of_words("--module llama3 --config llama3_debugmodel");
  EXPECT_EQ(with_flags(debug, {.ranks = 2}).layout.virtual_stages, 1);
  const Job gpipe = with_flags(debug, {.ranks = 2, .pp = 2, .schedule = Schedule::gpipe});
  EXPECT_EQ(gpipe.layout.virtual_stages, 1);
  EXPECT_EQ(options(gpipe).schedule, pytorch::PipelineSchedule::gpipe);
}

TEST(TitanSettings, RecomputationIsAFlag) {
  const Job job = job_of_words("--module llama3 --config llama3_8b");
  EXPECT_EQ(with_flags(job, {.recompute = Recompute::full}).train.recompute, Recompute::full);
}

TEST(TitanSettings, EveryConfigurationWithRulesIsPredicted) {
  int configurations = 0;
  for (const Recipe& recipe : recipes()) {
    if (!recipe.not_modelled.empty()) {
      continue;
    }
    const Job job = job_of_words(fmt::format("--module {} --config {}", recipe.module, recipe.name));
    const Result<Plan> plan = make_plan(with_flags(job, {.ranks = 64}));
    EXPECT_TRUE(plan) << recipe.name << ": " << plan.error().message;
    ++configurations;
  }
  EXPECT_EQ(configurations, 6 + 11 + 5 + 4);  // of llama3, qwen3, deepseek_v3, gpt_oss and kimi_k2_7
}

TEST(TitanSettings, EveryFlavourWithRulesIsPredicted) {
  for (const Flavour& flavour : flavours()) {
    if (!flavour.not_modelled.empty()) {
      continue;
    }
    TrainerConfig config;
    config.module = flavour.module;
    config.sequence = 4096;
    const Result<Job> job = job_of(config, model_of(flavour, config.sequence), "here");
    ASSERT_TRUE(job) << flavour.name;
    const Result<Plan> plan = make_plan(with_flags(*job, {.ranks = 64, .tp = 2}));
    EXPECT_TRUE(plan) << flavour.module << " " << flavour.name << ": " << plan.error().message;
  }
}

/// 34 layers with embedding and output, in stages of 5: 7.
TEST(TitanSettings, StagesOfARankAreEqual) {
  EXPECT_EQ(stages_per_rank({32, 1, 1, 5}, 7), 1);
  EXPECT_EQ(stages_per_rank({32, 1, 1, 5}, 4), std::nullopt);
  EXPECT_EQ(stages_per_rank({6, 1, 1, 2}, 2), 2);
  EXPECT_EQ(stages_per_rank({6, INT64_MAX, 1, 2}, 2), std::nullopt);
}

TEST(TitanSettings, ShardingIsNamed) {
  EXPECT_EQ(sharding_text(job_of_preset("llama3-8b", {.ranks = 64, .cp = 4})), "FSDP2 over 64 ranks");
  Job job = job_of_preset("llama3-8b", {.ranks = 64});
  options(job).replicate = 4;
  EXPECT_EQ(sharding_text(job), "FSDP2 over 16 ranks, 4 replicas");
  options(job).replicate = 64;
  EXPECT_EQ(sharding_text(job), "DDP over 64 ranks");
}

}  // namespace
}  // namespace commlens::torchtitan
