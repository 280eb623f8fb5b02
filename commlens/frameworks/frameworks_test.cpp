#include "commlens/frameworks/frameworks.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

TEST(Frameworks, TheSameFrameworkKeepsEverything) {
  EXPECT_EQ(with_framework(preset("20B").value(), "neox").framework_version, "4bc66703");
}

TEST(Frameworks, DeepSpeedTakesGptNeoxsSettings) {
  const Job job = with_framework(preset("20B").value(), "deepspeed");
  EXPECT_EQ(job.framework, "deepspeed");
  EXPECT_TRUE(job.framework_version.empty());
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 1'260'000'000);
  EXPECT_TRUE(deepspeed::options(job).weight_decay_groups);
  EXPECT_EQ(job.train.recompute, Recompute::full);
  EXPECT_EQ(deepspeed::options(job).partition_method, "parameters");
}

TEST(Frameworks, AreFoundByName) {
  for (const char* name : {"paper", "deepspeed", "neox", "megatron", "torch-ddp", "commlens"}) {
    EXPECT_EQ(framework_named(name).value()->name, name);
  }
  EXPECT_EQ(framework_named("deepsped").error().message,
            "there is no framework 'deepsped'; did you mean 'deepspeed'? choose from paper, deepspeed, neox, "
            "megatron, torch-ddp, torch-fsdp, torch-tp, torch-pipeline, torchtitan, hf, commlens");
}

TEST(Frameworks, HaveAVersionBehindTheirName) {
  const auto named = [](std::string_view text) { return versioned_framework(text).value(); };
  EXPECT_EQ(named("deepspeed").name, "deepspeed");
  EXPECT_EQ(named("deepspeed").version, "");
  EXPECT_EQ(named("torch-tp@2.9.1").name, "torch-tp");
  EXPECT_EQ(named("torch-tp@2.9.1").version, "2.9.1");
  EXPECT_EQ(with_framework(preset("19M").value(), named("neox@8b43196f")).framework_version, "8b43196f");
  const auto fault = [](std::string_view text) { return versioned_framework(text).error().message; };
  EXPECT_EQ(fault("deepspeed@"), "a version is missing after 'deepspeed@', for instance deepspeed@1.2.3");
  EXPECT_EQ(fault("paper@2"), "framework paper has no versions; leave '@2' out");
  EXPECT_EQ(fault("@2").substr(0, 25), "there is no framework '';");
}

/// "torch" is what the job has of torch-ddp, torch-fsdp, torch-tp and torch-pipeline.
TEST(Frameworks, OfOneFamilyHaveOneName) {
  const VersionedFramework torch = versioned_framework("torch@2.9.1").value();
  EXPECT_EQ(torch.family, "torch");
  Job job = with_framework(preset("19M").value(), "torch-tp");
  EXPECT_EQ(with_framework(job, torch).framework, "torch-tp");
  EXPECT_EQ(with_framework(job, torch).framework_version, "2.9.1");
  EXPECT_EQ(with_framework(preset("19M").value(), torch).framework, "torch-fsdp");
  job.framework_version = "2.12.1";
  EXPECT_EQ(with_framework(job, "torch-pipeline").framework_version, "2.12.1");
  EXPECT_EQ(with_framework(job, "deepspeed").framework_version, "");
}

TEST(Frameworks, DdpAndFsdpTakeTheDataRanksOfEachOther) {
  Job job = with_framework(preset("19M").value(), "torch-ddp");
  job.layout.dp = 4;
  pytorch::options(job).ddp.is_used = true;
  const Job sharded = with_framework(job, "torch-fsdp");
  EXPECT_FALSE(pytorch::options(sharded).ddp.is_used);
  EXPECT_TRUE(pytorch::options(sharded).fsdp.is_used);
  EXPECT_EQ(pytorch::data_shard(sharded), 4);
  EXPECT_TRUE(pytorch::options(with_framework(sharded, "torch-ddp")).ddp.is_used);
  EXPECT_TRUE(pytorch::options(with_framework(job, "torch-pipeline")).ddp.is_used);
}

TEST(Frameworks, MegatronRecomputesAsGptNeoxDoes) {
  Job neox = preset("1.3B").value();
  neox::options(neox).checkpoint_num_layers = 2;
  neox.train.partition_activations = true;
  const Job job = with_framework(neox, "megatron");
  EXPECT_EQ(megatron::options(job).recompute_method, "uniform");
  EXPECT_EQ(megatron::options(job).recompute_num_layers, 2);
  EXPECT_FALSE(job.train.partition_activations);
}

TEST(Frameworks, TrainersPadAVocabularyThatWasTakenAsItIs) {
  Job job;
  job.framework = "commlens";
  job.model.vocab = job.model.raw_vocab = 50257;
  EXPECT_EQ(with_framework(job, "deepspeed").model.vocab_multiple, 1);
  EXPECT_EQ(with_framework(job, "neox").model.vocab_multiple, 128);
  EXPECT_EQ(with_framework(job, "megatron").model.vocab_multiple, 128);
  job.model.vocab_is_padded = true;
  EXPECT_EQ(with_framework(job, "neox").model.vocab_multiple, 1);
}

TEST(Frameworks, TorchDdpLeavesZeroOutAndSaysSo) {
  const Job job = with_framework(preset("1.3B").value(), "torch-ddp");
  EXPECT_EQ(job.train.zero_stage, 0);
  EXPECT_EQ(job.warnings.at(0), "torch-ddp has no ZeRO: stage 1 of the configuration is skipped");
}

TEST(Frameworks, OnlyFullRecomputationPartitionsActivations) {
  Job job;
  set_recompute(job, Recompute::full);
  job.train.partition_activations = true;
  set_recompute(job, Recompute::full);
  EXPECT_TRUE(job.train.partition_activations);
  set_recompute(job, Recompute::selective);
  EXPECT_FALSE(job.train.partition_activations);
}

TEST(Frameworks, OurTrainerTakesDeepSpeedsSharding) {
  Job job = preset("1.3B").value();
  job.train.zero_stage = 3;
  job.train.persistence_threshold = 5;
  job.train.hpz = 2;
  job.train.quantized_weights = job.train.quantized_gradients = true;
  job.layout.dp = 2;
  const Job ours = validated(with_framework(job, "commlens")).value();
  EXPECT_EQ(ours.train.persistence_threshold, 5);
  EXPECT_EQ(ours.train.hpz, 2);
  EXPECT_TRUE(ours.train.quantized_weights);
  EXPECT_TRUE(ours.train.quantized_gradients);
  EXPECT_EQ(trainer::options(ours).bucket, Bytes{26'214'400});
  EXPECT_EQ(ours.model.vocab, 50304);
}

TEST(Frameworks, OurTrainerTakesBf16WhereNobodyChoseFp16) {
  const Job job = validated(with_framework(preset("1.3B").value(), "commlens")).value();
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_TRUE(job.warnings.empty());
  Job chosen = preset("1.3B").value();
  chosen.train.dtype_is_chosen = true;
  EXPECT_EQ(validated(with_framework(chosen, "commlens"))->train.dtype, DType::fp16);
}

TEST(Frameworks, OurTrainerLeavesOutWhatDoesNotApply) {
  Job job = preset("20B").value();  // ZeRO-1, full recomputation, partitioned activations
  job.train.hpz = 2;
  job.train.quantized_weights = job.train.quantized_gradients = true;
  job.train.partition_activations = true;
  const Job ours = validated(with_framework(job, "commlens")).value();
  EXPECT_EQ(ours.train.hpz, 1);
  EXPECT_FALSE(ours.train.quantized_weights);
  EXPECT_FALSE(ours.train.quantized_gradients);
  EXPECT_FALSE(ours.train.partition_activations);
  job.layout.tp = 2;
  EXPECT_TRUE(validated(with_framework(job, "commlens")).value().train.partition_activations);
  job.layout.sequence_parallel = true;
  EXPECT_FALSE(validated(with_framework(job, "commlens")).value().train.partition_activations);
}

TEST(Frameworks, OurTrainerSaysThatItDoesNotOffload) {
  Job job = preset("1.3B").value();
  deepspeed::options(job).offloads_optimizer = true;
  EXPECT_EQ(with_framework(job, "commlens").warnings.at(0),
            "our trainer keeps everything on its device: offload is skipped");
}

}  // namespace
}  // namespace commlens
