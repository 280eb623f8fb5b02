#include "commlens/model/overrides.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/model/presets.hpp"

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
  EXPECT_EQ(changed("1.3B", {.bucket = Bytes{25 * 1024 * 1024}}).deepspeed.reduce_bucket_size, 13'107'200);
  EXPECT_EQ(changed("1.3B", {.dtype = DType::fp32, .bucket = Bytes{4096}}).deepspeed.reduce_bucket_size,
            1024);
  EXPECT_EQ(changed("1.3B", {.framework = Framework::torch_ddp, .bucket = Bytes{4096}}).ddp.bucket_cap,
            Bytes{4096});
  EXPECT_EQ(with_overrides(preset("1.3B").value(), {.bucket = Bytes{3}}).error().message,
            "--bucket: 3 bytes are not a whole number of fp16 elements (2 bytes each)");
  EXPECT_EQ(with_overrides(preset("1.3B").value(), {.framework = Framework::paper, .bucket = Bytes{4}})
                .error()
                .message,
            "--bucket: the paper rules have no bucket size");
}

TEST(Overrides, RecomputeNoneSwitchesPartitioningOff) {
  const Job job = changed("1.3B", {.recompute = Recompute::none});
  EXPECT_EQ(job.train.recompute, Recompute::none);
  EXPECT_FALSE(job.deepspeed.checkpoint_activations);
  EXPECT_FALSE(job.deepspeed.partition_activations);
  EXPECT_FALSE(job.neox.partition_activations);
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

TEST(Overrides, VirtualStagesMeanTheInterleavedSchedule) {
  const Job job =
      resolved_with("1.3B", {.framework = Framework::megatron, .ranks = 4, .pp = 4, .virtual_stages = 2});
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
  EXPECT_EQ(schedule_from("zb").error().message,
            "there is no schedule 'zb'; choose gpipe, 1f1b or interleaved");
}

}  // namespace
}  // namespace commlens
