#include "commlens/model/framework_options.hpp"

#include <gtest/gtest.h>

#include "commlens/model/presets.hpp"

namespace commlens {
namespace {

TEST(FrameworkOptions, TheSameFrameworkKeepsEverything) {
  EXPECT_EQ(with_framework(preset("20B").value(), Framework::neox).framework_version, "4bc66703");
}

TEST(FrameworkOptions, DeepSpeedTakesGptNeoxsSettings) {
  const Job job = with_framework(preset("20B").value(), Framework::deepspeed);
  EXPECT_EQ(job.framework, Framework::deepspeed);
  EXPECT_TRUE(job.framework_version.empty());
  EXPECT_EQ(job.deepspeed.reduce_bucket_size, 1'260'000'000);
  EXPECT_TRUE(job.deepspeed.weight_decay_groups);
  EXPECT_TRUE(job.deepspeed.checkpoint_activations);
  EXPECT_EQ(job.deepspeed.partition_method, "parameters");
}

TEST(FrameworkOptions, MegatronCallsZero1TheDistributedOptimizer) {
  const Job job = with_framework(preset("1.3B").value(), Framework::megatron);
  EXPECT_TRUE(job.megatron.distributed_optimizer);
  EXPECT_EQ(job.megatron.recompute_method, "uniform");
  EXPECT_EQ(job.megatron.recompute_num_layers, 1);
  Job plain = preset("1.3B").value();
  set_zero_stage(plain, 0);
  EXPECT_FALSE(with_framework(plain, Framework::megatron).megatron.distributed_optimizer);
}

TEST(FrameworkOptions, TrainersPadAVocabularyThatWasTakenAsItIs) {
  Job job;
  job.framework = Framework::commlens;
  job.model.vocab = job.model.raw_vocab = 50257;
  EXPECT_EQ(with_framework(job, Framework::deepspeed).model.vocab_multiple, 1);
  EXPECT_EQ(with_framework(job, Framework::neox).model.vocab_multiple, 128);
  EXPECT_EQ(with_framework(job, Framework::megatron).model.vocab_multiple, 128);
  job.model.vocab_is_padded = true;
  EXPECT_EQ(with_framework(job, Framework::neox).model.vocab_multiple, 1);
}

TEST(FrameworkOptions, TorchDdpLeavesZeroOutAndSaysSo) {
  const Job job = with_framework(preset("1.3B").value(), Framework::torch_ddp);
  EXPECT_EQ(job.train.zero_stage, 0);
  EXPECT_EQ(job.warnings.at(0), "torch-ddp has no ZeRO: stage 1 of the configuration is left out");
}

TEST(FrameworkOptions, RecomputeReachesEveryCopy) {
  Job job;
  set_recompute(job, Recompute::full);
  EXPECT_TRUE(job.deepspeed.checkpoint_activations);
  EXPECT_EQ(job.megatron.recompute_method, "uniform");
  set_recompute(job, Recompute::selective);
  EXPECT_FALSE(job.deepspeed.checkpoint_activations);
  EXPECT_TRUE(job.megatron.recompute_method.empty());
}

}  // namespace
}  // namespace commlens
