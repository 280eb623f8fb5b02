#include "commlens/frameworks/neox/reader.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

const std::string k_neox_model =
    "num-layers: 6\nhidden-size: 512\nnum-attention-heads: 8\nseq-length: 2048\nmax-position-embeddings: "
    "2048\n"
    "train_micro_batch_size_per_gpu: 4\n";

ConfigNode yaml(const std::string& file, const std::string& text) { return parse_yaml(file, text).value(); }

Result<Job> read_neox(const std::string& text, const std::string& version = "") {
  const Result<ConfigNode> all = merged_neox({yaml("m.yml", k_neox_model + text)});
  return all ? job_from_neox(*all, 0, version) : tl::unexpected(all.error());
}

std::string neox_error_of(const std::string& text) {
  const Result<Job> job = read_neox(text);
  return job ? "no error" : job.error().message;
}

TEST(NeoxYaml, FillsInTheDefaultsOfTheCommit) {
  const Job job = read_neox("").value();
  EXPECT_EQ(job.framework, "neox");
  EXPECT_EQ(job.framework_version, "4bc66703");
  EXPECT_EQ(job.model.name, "m");
  EXPECT_TRUE(job.model.tied_embeddings);
  EXPECT_EQ(job.model.positions, Positions::learned);
  EXPECT_EQ(job.model.raw_vocab, 50257);
  EXPECT_EQ(job.model.vocab_multiple, 128);
  EXPECT_EQ(job.train.dtype, DType::fp32);
  EXPECT_EQ(job.train.gradient_clipping, 1.0);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.recompute, Recompute::none);
  EXPECT_EQ(job.train.zero_stage, 0);
  EXPECT_EQ(neox::options(job).partition_method, "type:transformer|mlp");
  EXPECT_TRUE(deepspeed::options(job).weight_decay_groups);
  EXPECT_TRUE(deepspeed::options(job).attention_mask);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(NeoxYaml, ReadsWhatTheFilesSay) {
  const Job job =
      read_neox(
          "pipe-parallel-size: 2\nmodel_parallel_size: 2\nno_weight_tying: True\npos_emb: rotary\n"
          "gpt_j_residual: true\ncheckpoint_activations: true\ncheckpoint_num_layers: 2\n"
          "partition_activations: true\nfp32_allreduce: true\nfp16_lm_cross_entropy: true\n"
          "pipe_partition_method: uniform\nprecision: bfloat16\ngradient_accumulation_steps: null\n"
          "zero_optimization: {stage: 1, reduce_bucket_size: 1260000000, overlap_comm: True}\n"
          "deepspeed_extra_args: {pipeline: {pipe_partitioned: false}}\n")
          .value();
  EXPECT_EQ(job.layout.pp, 2);
  EXPECT_EQ(job.layout.tp, 2);
  EXPECT_FALSE(job.model.tied_embeddings);
  EXPECT_EQ(job.model.positions, Positions::rotary);
  EXPECT_TRUE(job.model.parallel_residual);
  EXPECT_EQ(job.train.recompute, Recompute::full);
  EXPECT_EQ(neox::options(job).checkpoint_num_layers, 2);
  EXPECT_TRUE(job.train.partition_activations);
  EXPECT_TRUE(job.train.partition_activations);
  EXPECT_TRUE(neox::options(job).fp32_allreduce);
  EXPECT_TRUE(neox::options(job).fp16_lm_cross_entropy);
  EXPECT_EQ(neox::options(job).partition_method, "uniform");
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_EQ(job.train.zero_stage, 1);
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 1'260'000'000);
  EXPECT_TRUE(deepspeed::options(job).overlap_comm);
  EXPECT_FALSE(deepspeed::options(job).pipe_partitioned);
  EXPECT_TRUE(deepspeed::options(job).grad_partitioned);
}

TEST(NeoxYaml, ReadsWhichAttentionKeepsScores) {
  EXPECT_FALSE(read_neox("")->train.attention.has_value());
  EXPECT_EQ(read_neox("attention_config: [[[flash], 6]]\n")->train.attention, Attention::flash);
  EXPECT_EQ(read_neox("attention_config: [[[global], 6]]\n")->train.attention, Attention::eager);
}

TEST(NeoxYaml, PipelineSwitchesMayStandAtTheTop) {
  EXPECT_FALSE(
      deepspeed::options(read_neox("pipeline: {grad_partitioned: false}\n").value()).grad_partitioned);
}

TEST(NeoxYaml, PipeParallelSizeZeroMeansNoPipeline) {
  EXPECT_EQ(read_neox("pipe_parallel_size: 0\n")->layout.pp, 1);
}

TEST(NeoxYaml, WithoutWeightDecayThereIsOneParameterGroup) {
  EXPECT_FALSE(deepspeed::options(read_neox("weight_decay: 0\n").value()).weight_decay_groups);
}

TEST(NeoxYaml, TheTokenizerDecidesTheVocabulary) {
  EXPECT_EQ(read_neox("tokenizer_type: CharLevelTokenizer\n")->model.raw_vocab, 512);
  EXPECT_EQ(read_neox("tokenizer_type: HFTokenizer\nvocab_file: ./x/20B_tokenizer.json\n")->model.raw_vocab,
            50277);
  const Job job = read_neox("tokenizer_type: SPMTokenizer\n").value();
  EXPECT_EQ(job.model.raw_vocab, 50257);
  ASSERT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(job.warnings[0],
            "m.yml:7: the vocabulary of 'SPMTokenizer' is not known: GPT-2's 50257 is used; set --vocab");
}

TEST(NeoxYaml, AGivenPaddedVocabularyIsKept) {
  const Result<ConfigNode> all = merged_neox({yaml("m.yml", k_neox_model)});
  const Job job = validated(job_from_neox(*all, 512, "").value()).value();
  EXPECT_EQ(job.model.vocab, 512);
}

TEST(NeoxYaml, MergesFilesAndRefusesAKeyInTwo) {
  const Result<ConfigNode> all =
      merged_neox({yaml("m.yml", k_neox_model), yaml("local.yml", "{\"data-path\": \"x\"}")});
  ASSERT_TRUE(all);
  EXPECT_TRUE(job_from_neox(*all, 0, "")->warnings.empty());
  EXPECT_EQ(
      merged_neox({yaml("m.yml", k_neox_model), yaml("b.yml", "a: 1\nhidden_size: 4\n")}).error().message,
      "b.yml:2: 'hidden_size' is at m.yml:2 too; GPT-NeoX takes a key from one file only");
  EXPECT_EQ(neox_error_of("gradient_clipping: 1\ndeepspeed_extra_args: {gradient_clipping: 2}\n"),
            "m.yml:8: 'gradient_clipping' is at m.yml:7 too; keep one");
}

TEST(NeoxYaml, SequenceParallelismChoosesTheLaterCommit) {
  const Job job = read_neox("sequence_parallel: true\nmodel_parallel_size: 2\n").value();
  EXPECT_EQ(job.framework_version, "8b43196f");
  EXPECT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(read_neox("sequence_parallel: true\n", "4bc66703").error().message,
            "m.yml:7: 'sequence_parallel' is not known to GPT-NeoX 4bc66703; set framework_version 8b43196f");
}

TEST(NeoxYaml, RefusesByNameWhatHasNoRules) {
  EXPECT_EQ(neox_error_of("gpt_j_tied: true\n"), "m.yml:7: 'gpt_j_tied' has no rules here; set it to false");
  EXPECT_EQ(neox_error_of("mlp_type: llama\n"),
            "m.yml:7: 'mlp_type' is 'llama'; only 'regular' has rules here");
  EXPECT_EQ(neox_error_of("moe_num_experts: 8\n"), "m.yml:7: 'moe_num_experts' is 8; only 1 has rules here");
  EXPECT_EQ(neox_error_of("norm: scalenorm\n"),
            "m.yml:7: 'norm' is 'scalenorm', which is not supported; choose from layernorm, rmsnorm");
  EXPECT_EQ(neox_error_of("activation: geglu\n"),
            "m.yml:7: 'activation' is 'geglu', whose gated MLP has no rules here");
  EXPECT_EQ(neox_error_of("attention_config: [[[gmlp], 6]]\n"),
            "m.yml:7: 'attention_config' has 'gmlp' layers, which have no rules here");
  EXPECT_EQ(neox_error_of("output_layer_parallelism: row\n"),
            "m.yml:7: 'output_layer_parallelism' is 'row'; only 'column' has rules here");
}

TEST(NeoxYaml, RefusesWhatGptNeoxRefuses) {
  const Result<ConfigNode> all =
      merged_neox({yaml("m.yml",
                        "num_layers: 6\nhidden_size: 512\nnum_attention_heads: 8\nseq_length: 4096\n"
                        "max_position_embeddings: 2048\n")});
  EXPECT_EQ(
      job_from_neox(*all, 0, "").error().message,
      "m.yml:5: 'max_position_embeddings' is 2048, less than seq_length 4096; GPT-NeoX needs at least that");
  EXPECT_EQ(job_from_neox(yaml("x.yml", "a: 1"), 0, "").error().message, "x.yml:1: 'num_layers' is missing");
}

TEST(NeoxYaml, WarnsOfUnknownKeys) {
  const Job job = read_neox("gradient_acumulation_steps: 4\n").value();
  ASSERT_EQ(job.warnings.size(), 1U);
  EXPECT_TRUE(job.warnings[0].starts_with("m.yml:7: unknown key 'gradient_acumulation_steps'"))
      << job.warnings[0];
}

}  // namespace
}  // namespace commlens
