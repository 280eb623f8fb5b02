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

TEST(FrameworkOptions, OurTrainerTakesDeepSpeedsSharding) {
  Job job = preset("1.3B").value();
  job.train.zero_stage = 3;
  job.deepspeed.param_persistence_threshold = 5;
  job.deepspeed.hpz_partition_size = 2;
  job.deepspeed.quantized_weights = job.deepspeed.quantized_gradients = true;
  job.layout.dp = 2;
  const Job ours = validated(with_framework(job, Framework::commlens)).value();
  EXPECT_EQ(ours.commlens.persistence_threshold, 5);
  EXPECT_EQ(ours.commlens.hpz, 2);
  EXPECT_TRUE(ours.commlens.quantized_weights);
  EXPECT_TRUE(ours.commlens.quantized_gradients);
  EXPECT_EQ(ours.commlens.bucket, Bytes{26'214'400});
  EXPECT_EQ(ours.model.vocab, 50304);
}

TEST(FrameworkOptions, OurTrainerTakesBf16WhereNobodyChoseFp16) {
  const Job job = validated(with_framework(preset("1.3B").value(), Framework::commlens)).value();
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_TRUE(job.warnings.empty());
  Job chosen = preset("1.3B").value();
  chosen.train.dtype_is_chosen = true;
  EXPECT_EQ(validated(with_framework(chosen, Framework::commlens))->train.dtype, DType::fp16);
}

TEST(FrameworkOptions, OurTrainerLeavesOutWhatDoesNotApply) {
  Job job = preset("20B").value();  // ZeRO-1, full recomputation, partitioned activations
  job.deepspeed.hpz_partition_size = 2;
  job.deepspeed.quantized_weights = job.deepspeed.quantized_gradients = true;
  job.deepspeed.partition_activations = true;
  const Job ours = validated(with_framework(job, Framework::commlens)).value();
  EXPECT_EQ(ours.commlens.hpz, 1);
  EXPECT_FALSE(ours.commlens.quantized_weights);
  EXPECT_FALSE(ours.commlens.quantized_gradients);
  EXPECT_FALSE(ours.commlens.partition_activations);
  job.layout.tp = 2;
  EXPECT_TRUE(validated(with_framework(job, Framework::commlens)).value().commlens.partition_activations);
  job.layout.sequence_parallel = true;
  EXPECT_FALSE(validated(with_framework(job, Framework::commlens)).value().commlens.partition_activations);
}

TEST(FrameworkOptions, OurTrainerSaysThatItDoesNotOffload) {
  Job job = preset("1.3B").value();
  job.deepspeed.offload = true;
  EXPECT_EQ(with_framework(job, Framework::commlens).warnings.at(0),
            "our trainer keeps everything on its device: offload is left out");
}

}  // namespace
}  // namespace commlens
