#include "commlens/frameworks/case_file.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

const std::string k_head = "framework: deepspeed\nframework_version: \"0.14.0\"\nranks: 4\niterations: 2\n";
const std::string k_model =
    "model: {family: gpt, layers: 4, hidden: 128, heads: 4, sequence: 32, vocab: 1000}\nmicro_batch: 2\n";

Result<Job> read(const std::string& text) { return job_from_case(parse_yaml("z/case.yaml", text).value()); }

std::string error_of(const std::string& text) {
  const Result<Job> job = read(text);
  return job ? "no error" : job.error().message;
}

TEST(CaseYaml, ReadsADeepSpeedCase) {
  const Job job =
      validated(read(k_head + k_model +
                     "precision: fp16\nmicro_batches: 2\nlayout: {pipeline: 2, tensor: 1, replicate: 2}\n"
                     "deepspeed:\n  train_micro_batch_size_per_gpu: 2\n  gradient_accumulation_steps: 2\n"
                     "  zero_optimization: {stage: 1, reduce_bucket_size: 50000}\n"
                     "  fp16: {enabled: true, initial_scale_power: 8}\n"
                     "options: {parameter_groups: weight_decay, attention_mask: true, engine: pipeline, "
                     "pipe_partition_method: uniform, zero_init: true}\n")
                    .value())
          .value();
  EXPECT_EQ(job.framework, "deepspeed");
  EXPECT_EQ(job.framework_version, "0.14.0");
  EXPECT_EQ(job.model.name, "z");
  EXPECT_EQ(job.iterations, 2);
  EXPECT_EQ(job.layout.dp, 1);
  EXPECT_EQ(job.layout.replicate, 2);
  EXPECT_EQ(job.model.max_positions, 32);
  EXPECT_EQ(parameter_count(job.model).value, 1'053'440);
  EXPECT_EQ(job.train.dtype, DType::fp16);
  EXPECT_EQ(job.train.zero_stage, 1);
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 50'000);
  EXPECT_TRUE(deepspeed::options(job).weight_decay_groups);
  EXPECT_TRUE(deepspeed::options(job).attention_mask);
  EXPECT_TRUE(deepspeed::options(job).pipeline_engine);
  EXPECT_EQ(deepspeed::options(job).partition_method, "uniform");
  EXPECT_TRUE(deepspeed::options(job).zero_init);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(CaseYaml, ReplicatedTensorRanksNeedNotDivideTheModel) {
  const Job job = validated(read("framework: deepspeed\nranks: 2\n"
                                 "model: {layers: 3, hidden: 63, heads: 7, sequence: 31, vocab: 251}\n"
                                 "layout: {tensor: 2}\n"
                                 "options: {replicated_tensor_parallel: true, partition_activations: true, "
                                 "checkpoint_activations: true}\n")
                                .value())
                      .value();
  EXPECT_EQ(job.model.vocab, 251);
  EXPECT_EQ(job.train.recompute, Recompute::full);
  EXPECT_TRUE(job.train.partition_activations);
}

TEST(CaseYaml, ReadsLlamaAndMixtures) {
  const Job job = validated(read("framework: commlens\nranks: 1\n"
                                 "model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, "
                                 "ffn_hidden: 96, sequence: 16, vocab: 100, experts: 4, top_k: 2}\n")
                                .value())
                      .value();
  // 2 x 100 x 64 + 2 (2 x 64 + 128 x 64 + 64 x 64 + 4 x 64 + 4 x 3 x 96 x 64) + 64
  EXPECT_EQ(parameter_count(job.model).value, 12'800 + 2 * (128 + 8'192 + 4'096 + 256 + 73'728) + 64);
  EXPECT_EQ(job.model.positions, Positions::rotary);
}

TEST(CaseYaml, ReadsATorchDdpCase) {
  const Job job = read("framework: torch-ddp\nframework_version: \"1.13\"\nranks: 2\n" + k_model +
                       "ddp: {bucket_cap_mb: 5, static_graph: true}\n")
                      .value();
  EXPECT_EQ(job.framework, "torch-ddp");
  EXPECT_EQ(pytorch::options(job).ddp.bucket_cap, Bytes{5'242'880});
  EXPECT_TRUE(pytorch::options(job).ddp.static_graph);
}

TEST(CaseYaml, TakesModelAndLayoutFromANeoxMap) {
  const std::string text =
      "framework: neox\nframework_version: 8b43196f\nranks: 4\npadded_vocab: 512\n"
      "neox: {model-parallel-size: 2, num-layers: 4, hidden_size: 128, num_attention_heads: 4, seq_length: "
      "64, "
      "max_position_embeddings: 64, sequence_parallel: true, train_micro_batch_size_per_gpu: 2}\n";
  const Job job = validated(read(text).value()).value();
  EXPECT_EQ(job.framework_version, "8b43196f");
  EXPECT_EQ(job.model.name, "z");
  EXPECT_EQ(job.layout.dp, 2);
  EXPECT_EQ(job.model.vocab, 512);
  EXPECT_EQ(error_of(text + "micro_batch: 2\n"),
            "z/case.yaml:6: 'micro_batch' must not be beside the neox map, which has all settings");
}

TEST(CaseYaml, TakesModelAndLayoutFromAMegatronMap) {
  const Job job =
      validated(read("framework: megatron\nranks: 2\npadded_vocab: 512\n"
                     "megatron: {num-layers: 4, hidden-size: 128, num-attention-heads: 4, seq-length: 64, "
                     "max-position-embeddings: 64, micro-batch-size: 2, global-batch-size: 16, "
                     "position-embedding-type: rope, untie-embeddings-and-output-weights: true}\n")
                    .value())
          .value();
  EXPECT_EQ(job.train.micro_batches, 4);
  EXPECT_EQ(parameter_count(job.model).value, 924'416);
}

TEST(CaseYaml, OptionsOutweighTheDefaultsOfTheFramework) {
  const std::string text = "framework: neox\nranks: 1\n" + k_model;
  EXPECT_TRUE(deepspeed::options(read(text).value()).weight_decay_groups);
  const Job job =
      read(text + "options: {parameter_groups: single, pipe_partition_method: uniform}\n").value();
  EXPECT_FALSE(deepspeed::options(job).weight_decay_groups);
  EXPECT_EQ(neox::options(job).partition_method, "uniform");
}

TEST(CaseYaml, RefusesContradictions) {
  EXPECT_EQ(error_of(k_head + k_model + "deepspeed: {fp16: {enabled: true}}\n"),
            "z/case.yaml:7: the deepspeed map trains in fp16, 'precision' is fp32; make them agree");
  EXPECT_EQ(error_of(k_head + k_model + "deepspeed: {train_micro_batch_size_per_gpu: 4}\n"),
            "z/case.yaml:7: train_micro_batch_size_per_gpu is 4, 'micro_batch' is 2; make them agree");
  const Job job =
      read(k_head + k_model + "micro_batches: 1\ndeepspeed: {gradient_accumulation_steps: 4}\n").value();
  EXPECT_EQ(make_plan(job).error().message,
            "z/case.yaml:8: gradient_accumulation_steps is 4, 'micro_batches' is 1; make them agree");
}

TEST(CaseYaml, RefusesWhatIsMissingOrWrong) {
  EXPECT_EQ(error_of("ranks: 4\n"),
            "z/case.yaml:1: 'framework' is missing: paper, deepspeed, neox, megatron, torch-ddp, "
            "torch-fsdp, torch-tp, torch-pipeline, torchtitan, hf or commlens");
  EXPECT_TRUE(
      error_of("framework: deepsped\n").starts_with("z/case.yaml:1: there is no framework 'deepsped'"));
  EXPECT_EQ(error_of(k_head), "z/case.yaml:1: 'model' is missing (or a neox or megatron map)");
  EXPECT_EQ(error_of(k_head + "model: 4\n"), "z/case.yaml:5: 'model' must hold keys with values");
  EXPECT_EQ(error_of("framework: deepspeed\nranks: 0\n" + k_model),
            "z/case.yaml:2: 'ranks' is 0; it must be at least 1");
  EXPECT_EQ(error_of(k_head + k_model + "layout: {tensor: two}\n"),
            "z/case.yaml:7: 'tensor' must be an integer, it is 'two'");
  EXPECT_EQ(read(k_head + k_model + "microbatches: 4\n")->warnings.at(0),
            "z/case.yaml:7: unknown key 'microbatches'; did you mean 'micro_batches'?");
}

TEST(CaseYaml, ReadsTheSettingsOfOurTrainer) {
  const Job job =
      validated(read("framework: commlens\nranks: 4\nprecision: bf16\n" + k_model +
                     "commlens: {zero: 3, bucket: 4096, persistence_threshold: 0, hpz: 2, "
                     "quantized_weights: true, quantized_gradients: true, gradient_clipping: 0.5}\n"
                     "options: {recompute: selective}\n")
                    .value())
          .value();
  EXPECT_EQ(job.framework, "commlens");
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_EQ(job.train.zero_stage, 3);
  EXPECT_EQ(job.train.gradient_clipping, 0.5);
  EXPECT_EQ(job.train.recompute, Recompute::selective);
  EXPECT_EQ(trainer::options(job).bucket, Bytes{4096});
  EXPECT_EQ(job.train.persistence_threshold, 0);
  EXPECT_EQ(job.train.hpz, 2);
  EXPECT_TRUE(job.train.quantized_weights);
  EXPECT_TRUE(job.train.quantized_gradients);
  EXPECT_FALSE(trainer::options(job).all_reduce_gradients);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(CaseYaml, OurTrainerTakesADeepSpeedMapAlong) {
  const Job job =
      validated(read("framework: commlens\nranks: 4\nprecision: fp16\n" + k_model +
                     "deepspeed: {zero_optimization: {stage: 3, stage3_param_persistence_threshold: 7}, "
                     "fp16: {enabled: true}}\ncommlens: {bucket: 4096}\n")
                    .value())
          .value();
  EXPECT_EQ(job.framework, "commlens");
  EXPECT_EQ(job.train.zero_stage, 3);
  EXPECT_EQ(job.train.persistence_threshold, 7);
  EXPECT_EQ(trainer::options(job).bucket, Bytes{4096});
  EXPECT_EQ(job.train.dtype, DType::fp16);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(CaseYaml, RefusesImpossibleSettingsOfOurTrainer) {
  const std::string head = "framework: commlens\nranks: 4\n" + k_model;
  EXPECT_NE(error_of(head + "commlens: {zero: 4}\n").find("'zero' is 4"), std::string::npos);
  EXPECT_NE(error_of(head + "commlens: {bucket: 0}\n").find("'bucket' is 0"), std::string::npos);
  EXPECT_NE(error_of(head + "commlens: {gradient_clipping: -1}\n").find("must not be negative"),
            std::string::npos);
  EXPECT_NE(error_of(k_head + k_model + "commlens: {bucket: 1}\n").find("set 'framework: commlens'"),
            std::string::npos);
}

}  // namespace
}  // namespace commlens
