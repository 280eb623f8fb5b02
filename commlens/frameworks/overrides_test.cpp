#include "commlens/frameworks/overrides.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

Job changed(const char* name, const Overrides& flags) {
  return with_overrides(preset(name).value(), flags).value();
}

Job resolved_with(const char* name, const Overrides& flags) {
  return validated(changed(name, flags)).value();
}

TEST(Overrides, NothingChangesNothing) {
  const Job job = changed("13B", {});
  EXPECT_EQ(job.train.micro_batch, 4);
  EXPECT_EQ(job.layout.ranks, 0);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(Overrides, DataRanksAreWhatRemainsOfTheRanks) {
  EXPECT_EQ(resolved_with("13B", {.ranks = 1024, .tp = 8, .pp = 8}).layout.dp, 16);
  EXPECT_EQ(resolved_with("13B", {.tp = 8}).layout.dp, 1);
  EXPECT_EQ(resolved_with("13B", {.dp = 2, .tp = 8}).layout.ranks, 16);
  EXPECT_FALSE(validated(changed("13B", {.ranks = 8, .dp = 3})));
}

TEST(Overrides, DataRanksOfAFileGiveWayToTheFlags) {
  Job job = preset("13B").value();
  job.layout = {.ranks = 8, .dp = 8};
  EXPECT_EQ(validated(with_overrides(job, {.tp = 2}).value()).value().layout.dp, 4);
  EXPECT_EQ(validated(with_overrides(job, {.dp = 16}).value()).value().layout.ranks, 16);
  EXPECT_EQ(validated(with_overrides(job, {.ranks = 4}).value()).value().layout.dp, 4);
}

TEST(Overrides, ZeroRanksAreRefusedRatherThanIgnored) {
  EXPECT_FALSE(validated(changed("19M", {.ranks = 0})));
  EXPECT_FALSE(validated(changed("19M", {.dp = 0})));
  EXPECT_FALSE(validated(changed("19M", {.micro_batches = 0})));
}

TEST(Overrides, ALongerSequenceRaisesThePositions) {
  const Job job = changed("1.3B", {.seq = 4096});
  EXPECT_EQ(job.model.sequence, 4096);
  EXPECT_EQ(job.model.max_positions, 4096);
  ASSERT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(job.warnings[0], "--seq 4096: max_position_embeddings raised from 2048");
  EXPECT_EQ(changed("1.3B", {.seq = 512}).model.max_positions, 2048);
}

TEST(Overrides, TheVocabularyIsPaddedAgain) {
  EXPECT_EQ(resolved_with("1.3B", {.tp = 2, .vocab = 50304}).model.vocab, 50432);
  EXPECT_EQ(resolved_with("1.3B", {.vocab = 1000}).model.vocab, 1024);
}

TEST(Overrides, ABucketIsGivenInBytesAndKeptInElements) {
  EXPECT_EQ(deepspeed::options(changed("1.3B", {.bucket = Bytes{25 * 1024 * 1024}})).reduce_bucket_size,
            13'107'200);
  EXPECT_EQ(
      deepspeed::options(changed("1.3B", {.dtype = DType::fp32, .bucket = Bytes{4096}})).reduce_bucket_size,
      1024);
  EXPECT_EQ(
      pytorch::options(changed("1.3B", {.framework = "torch-ddp", .bucket = Bytes{4096}})).ddp.bucket_cap,
      Bytes{4096});
  EXPECT_EQ(with_overrides(preset("1.3B").value(), {.bucket = Bytes{3}}).error().message,
            "--bucket: 3 bytes are no integer number of fp16 elements (2 bytes each)");
  EXPECT_EQ(
      with_overrides(preset("1.3B").value(), {.framework = "paper", .bucket = Bytes{4}}).error().message,
      "--bucket: the paper rules have no bucket size");
}

TEST(Overrides, RecomputeNoneSwitchesPartitioningOff) {
  const Job job = changed("1.3B", {.recompute = Recompute::none});
  EXPECT_EQ(job.train.recompute, Recompute::none);
  EXPECT_FALSE(job.train.partition_activations);
}

TEST(Overrides, TheFlagsReplaceAGlobalBatchStatedTwice) {
  Job job = preset("1.3B").value();
  job.global_batch = 16;
  job.train.micro_batches = 4;
  const Job result = with_overrides(job, {.ranks = 8}).value();
  EXPECT_EQ(result.global_batch, 0);
  EXPECT_EQ(result.warnings.size(), 1U);
  EXPECT_TRUE(validated(result));
}

TEST(Overrides, AGlobalBatchDecidesTheMicroBatches) {  // N / (dp x micro-batch)
  const auto micro_batches = [](const Overrides& flags) {
    return resolved_with("1.3B", flags).train.micro_batches;
  };
  EXPECT_EQ(micro_batches({.ranks = 8, .global_batch = 64}), 2) << "64 / (8 x 4)";
  EXPECT_EQ(micro_batches({.ranks = 8, .tp = 8, .global_batch = 64}), 16) << "64 / (1 x 4)";
  EXPECT_EQ(micro_batches({.ranks = 8, .tp = 2, .micro_batch = 1, .global_batch = 64}), 16) << "64 / (4 x 1)";
  EXPECT_EQ(validated(changed("1.3B", {.ranks = 8, .global_batch = 60})).error().message,
            "the global batch 60 is not divisible by micro-batch 4 x dp 8; change one of them");
  EXPECT_EQ(
      validated(changed("1.3B", {.ranks = 8, .micro_batches = 3, .global_batch = 64})).error().message,
      "the global batch 64 is not micro-batch 4 x 3 micro-batches x dp 8; change one of them or --ranks");
  EXPECT_EQ(sequences_per_iteration(resolved_with("1.3B", {.ranks = 8, .pp = 2, .global_batch = 48})), 48);
}

TEST(Overrides, AGlobalBatchReplacesThatOfTheFile) {
  Job job = preset("1.3B").value();
  job.global_batch = 32;
  job.train.micro_batches = 8;
  const Job changed = validated(with_overrides(job, {.dp = 2, .global_batch = 16}).value()).value();
  EXPECT_EQ(changed.train.micro_batches, 2);
  EXPECT_TRUE(changed.warnings.empty());
  job.train.micro_batch = 0;  // a file with a number of micro-batches: the micro-batch is open
  job.train.micro_batches = 4;
  EXPECT_EQ(validated(with_overrides(job, {.dp = 2, .global_batch = 16}).value()).value().train.micro_batch,
            2);
}

TEST(Overrides, SequenceParallelismOverOneRankHasNoEffectAndSaysSo) {
  const Job job = resolved_with("1.3B", {.framework = "megatron", .tp = 1, .sp = true});
  EXPECT_FALSE(job.layout.sequence_parallel);
  EXPECT_EQ(job.warnings,
            std::vector<std::string>({"sequence parallelism has no effect at tp 1: it splits over the tensor "
                                      "ranks; use --tp 2 or more"}));
  EXPECT_TRUE(resolved_with("1.3B", {.framework = "megatron", .tp = 2, .sp = true}).warnings.empty());
  EXPECT_EQ(resolved_with("1.3B", {.sp = true}).framework_version, "4bc66703")
      << "no later rules for nothing";
}

TEST(Overrides, VirtualStagesMeanTheInterleavedSchedule) {
  const Job job = resolved_with("1.3B", {.framework = "megatron", .ranks = 4, .pp = 4, .virtual_stages = 2});
  EXPECT_EQ(job.train.schedule, Schedule::interleaved);
}

TEST(Overrides, SequenceParallelismNeedsTheLaterGptNeox) {
  const Job job = resolved_with("1.3B", {.tp = 2, .sp = true});
  EXPECT_EQ(job.framework_version, "8b43196f");
  EXPECT_TRUE(job.layout.sequence_parallel);
  EXPECT_EQ(job.warnings.size(), 1U);
}

TEST(Overrides, NamesOfModesAreChecked) {
  EXPECT_EQ(recompute_from("full").value(), Recompute::full);
  EXPECT_EQ(schedule_from("1f1b").value(), Schedule::one_f_one_b);
  EXPECT_EQ(recompute_from("all").error().message,
            "there is no recompute mode 'all'; choose none, selective or full");
  EXPECT_EQ(attention_from("flash").value(), Attention::flash);
  EXPECT_EQ(attention_from("paged").error().message, "there is no attention 'paged'; choose flash or eager");
  EXPECT_EQ(schedule_from("zb").error().message,
            "there is no schedule 'zb'; choose gpipe, 1f1b or interleaved");
}

TEST(Overrides, ReachOurTrainersSettings) {
  Overrides flags;
  flags.framework = "commlens";
  flags.zero = 3;
  flags.dp = 4;
  flags.tp = 2;
  flags.recompute = Recompute::full;
  flags.bucket = Bytes{4096};
  flags.clip = 0;
  flags.persistence_threshold = 0;
  flags.hpz = 2;
  flags.qwz = flags.qgz = flags.partition_activations = true;
  const Job job = resolved_with("1.3B", flags);
  EXPECT_EQ(trainer::options(job).bucket, Bytes{4096});
  EXPECT_EQ(job.train.gradient_clipping, 0);
  EXPECT_EQ(job.train.persistence_threshold, 0);
  EXPECT_EQ(job.train.hpz, 2);
  EXPECT_TRUE(job.train.quantized_weights);
  EXPECT_TRUE(job.train.quantized_gradients);
  EXPECT_TRUE(job.train.partition_activations);
  EXPECT_FALSE(trainer::options(job).all_reduce_gradients);
}

TEST(Overrides, ReachDeepSpeedsWordsForThem) {
  Overrides flags;
  flags.recompute = Recompute::full;
  flags.persistence_threshold = 7;
  flags.hpz = 2;
  flags.qwz = flags.partition_activations = true;
  const Job job = changed("1.3B", flags);  // neox on deepspeed
  EXPECT_EQ(job.train.persistence_threshold, 7);
  EXPECT_EQ(job.train.hpz, 2);
  EXPECT_TRUE(job.train.quantized_weights);
  EXPECT_TRUE(job.train.partition_activations);
}

std::string refusal(const char* framework, const std::function<void(Overrides&)>& set) {
  Overrides flags;
  flags.framework = framework;
  set(flags);
  const Result<Job> job = with_overrides(preset("1.3B").value(), flags);
  return job ? "accepted" : job.error().message;
}

TEST(Overrides, RefuseWhatAFrameworkDoesNotHave) {
  const std::vector<std::pair<std::string, std::function<void(Overrides&)>>> flags = {
      {"--persistence-threshold: the megatron", [](Overrides& given) { given.persistence_threshold = 1; }},
      {"--hpz: the megatron", [](Overrides& given) { given.hpz = 2; }},
      {"--qwz: the megatron", [](Overrides& given) { given.qwz = true; }},
      {"--qgz: the megatron", [](Overrides& given) { given.qgz = true; }},
      {"--deepspeed-like: only", [](Overrides& given) { given.all_reduce_gradients = true; }},
      {"--partition-activations: the megatron",
       [](Overrides& given) { given.partition_activations = true; }}};
  for (const auto& [start, set] : flags) {
    EXPECT_EQ(refusal("megatron", set).rfind(start, 0), 0U) << refusal("megatron", set);
    EXPECT_EQ(refusal("commlens", set), "accepted") << start;
  }
  EXPECT_EQ(refusal("commlens",
                    [](Overrides& given) {
                      given.recompute = Recompute::none;
                      given.partition_activations = true;
                    }),
            "--partition-activations splits what full recomputation stores; use --recompute full");
  EXPECT_EQ(refusal("commlens", [](Overrides& given) { given.attention = Attention::flash; }), "accepted");
}

TEST(Overrides, Fp16ThatIsAskedForStaysAndIsRefusedByTheRules) {
  const Job job = changed("1.3B", {.framework = "commlens", .dtype = DType::fp16});
  EXPECT_EQ(job.train.dtype, DType::fp16);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(Overrides, ANarrowerModelKeepsItsProportions) {
  const Job job = resolved_with("19M", {.layers = 2, .hidden = 64, .heads = 4});
  EXPECT_EQ(job.model.layers, 2);
  EXPECT_EQ(job.model.ffn_hidden, 256);
  EXPECT_EQ(job.model.head_dim, 16);
  EXPECT_EQ(job.model.kv_heads, 4);
  Job grouped = preset("19M").value();
  grouped.model.kv_heads = 2;
  EXPECT_EQ(with_overrides(grouped, {.heads = 4}).value().model.kv_heads, 2);
}

}  // namespace
}  // namespace commlens
