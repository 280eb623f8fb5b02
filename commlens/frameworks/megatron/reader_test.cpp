#include "commlens/frameworks/megatron/reader.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

const std::string k_megatron_model =
    "# GPT-2 345M\n"
    "--num-layers 24 --hidden-size 1024 \\\n"
    "  --num-attention-heads=16 --seq-length 1024 --max-position-embeddings '1024'\n"
    "--micro-batch-size 4\n";

Result<Job> read_megatron(const std::string& text) {
  const Result<ConfigNode> arguments = parse_megatron_arguments("args.txt", k_megatron_model + text);
  return arguments ? job_from_megatron(*arguments, 0) : tl::unexpected(arguments.error());
}

std::string megatron_error_of(const std::string& text) {
  const Result<Job> job = read_megatron(text);
  return job ? "no error" : job.error().message;
}

TEST(MegatronArgs, ReadsTheOrderOfRanks) {
  EXPECT_EQ(read_megatron("").value().layout.order, "tp-cp-ep-dp-pp");
  const Job job = read_megatron("--use-tp-pp-dp-mapping --pipeline-model-parallel-size 2\n").value();
  EXPECT_EQ(job.layout.order, "tp-cp-ep-pp-dp");
  EXPECT_TRUE(job.unmodelled.empty());
}

TEST(MegatronArgs, FillsInTheDefaultsOfTheVersion) {
  const Job job = read_megatron("").value();
  EXPECT_EQ(job.framework, "megatron");
  EXPECT_EQ(job.model.layers, 24);
  EXPECT_EQ(job.model.heads, 16);
  EXPECT_EQ(job.model.max_positions, 1024);
  EXPECT_TRUE(job.model.tied_embeddings);
  EXPECT_EQ(job.model.positions, Positions::learned);
  EXPECT_EQ(job.train.dtype, DType::fp32);
  EXPECT_EQ(job.train.micro_batch, 4);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.gradient_clipping, 1.0);
  EXPECT_EQ(validated(job).value().model.vocab, 50304);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(MegatronArgs, DerivesMicroBatchesFromTheGlobalBatch) {
  Job job = read_megatron("--global-batch-size 64\n").value();
  job.layout.ranks = 4;
  EXPECT_EQ(validated(job).value().train.micro_batches, 4);
  job.layout.ranks = 5;
  EXPECT_EQ(validated(job).error().message,
            "the global batch 64 is not divisible by micro-batch 4 x dp 5; change one of them");
}

TEST(MegatronArgs, ReadsTheLayout) {
  const Job job = read_megatron(
                      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel\n"
                      "--num-layers-per-virtual-pipeline-stage 2 --context-parallel-size 2\n")
                      .value();
  EXPECT_EQ(job.layout.tp, 2);
  EXPECT_EQ(job.layout.pp, 4);
  EXPECT_EQ(job.layout.cp, 2);
  EXPECT_EQ(job.layout.virtual_stages, 3);
  EXPECT_EQ(job.train.schedule, Schedule::interleaved);
  EXPECT_TRUE(job.layout.sequence_parallel);
  EXPECT_EQ(
      megatron_error_of("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4\n"),
      "args.txt:5: 'num_layers_per_virtual_pipeline_stage' is 4, which does not divide the 24 layers of 4 "
      "pipeline stages");
}

TEST(MegatronArgs, ReadsTheTraining) {
  const Job job =
      read_megatron(
          "--bf16 --accumulate-allreduce-grads-in-fp32 --use-distributed-optimizer --clip-grad 0.0\n"
          "--recompute-granularity full --recompute-method block --recompute-num-layers 3\n"
          "--distribute-saved-activations --overlap-grad-reduce --variable-seq-lengths\n")
          .value();
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_TRUE(megatron::options(job).gradients_in_fp32);
  EXPECT_EQ(job.train.zero_stage, 1);
  EXPECT_EQ(job.train.gradient_clipping, 0.0);
  EXPECT_EQ(job.train.recompute, Recompute::full);
  EXPECT_EQ(megatron::options(job).recompute_method, "block");
  EXPECT_EQ(megatron::options(job).recompute_num_layers, 3);
  EXPECT_TRUE(job.train.partition_activations);
  EXPECT_TRUE(megatron::options(job).overlap_grad_reduce);
  EXPECT_TRUE(megatron::options(job).variable_seq_lengths);
  EXPECT_EQ(read_megatron("--recompute-activations")->train.recompute, Recompute::selective);
}

TEST(MegatronArgs, ReadsWhichAttentionKeepsScores) {
  EXPECT_EQ(read_megatron("")->train.attention, Attention::flash);  // Transformer Engine's
  EXPECT_EQ(read_megatron("--transformer-impl local")->train.attention, Attention::eager);
  EXPECT_EQ(read_megatron("--transformer-impl local --use-flash-attn")->train.attention, Attention::flash);
}

TEST(MegatronArgs, ReadsLlamaLikeModels) {
  const Job job =
      read_megatron(
          "--swiglu --normalization RMSNorm --disable-bias-linear --group-query-attention\n"
          "--num-query-groups 4 --position-embedding-type rope --kv-channels 64 --vocab-size 32000\n"
          "--untie-embeddings-and-output-weights --make-vocab-size-divisible-by 64\n")
          .value();
  EXPECT_TRUE(job.model.gated_mlp);
  EXPECT_FALSE(job.model.norm_bias);
  EXPECT_FALSE(job.model.linear_bias);
  EXPECT_EQ(job.model.kv_heads, 4);
  EXPECT_EQ(job.model.ffn_hidden, 2688);  // 4096 x 2 / 3 = 2730.7, down to a multiple of 64
  EXPECT_EQ(validated(job).value().model.vocab, 32000);
  // 2 x 32000 x 1024 + 24 (qkv 1536 x 1024 + proj 1024^2 + 3 x 2688 x 1024 + 2 x 1024) + 1024
  EXPECT_EQ(parameter_count(validated(job).value().model).value, 65'536'000 + 24 * 10'881'024 + 1024);
}

TEST(MegatronArgs, ReadsMixtures) {
  const Job job = read_megatron(
                      "--num-experts 4 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall\n"
                      "--disable-bias-linear\n")
                      .value();
  EXPECT_EQ(job.model.experts, 4);
  EXPECT_EQ(job.model.top_k, 2);
  EXPECT_EQ(job.layout.ep, 2);
  EXPECT_EQ(megatron::options(job).moe_dispatcher, "alltoall");
  EXPECT_FALSE(job.model.linear_bias);
  EXPECT_TRUE(job.model.norm_bias);
}

TEST(MegatronArgs, KeepsTheVocabularyOfARun) {
  const Result<ConfigNode> arguments = parse_megatron_arguments("args.txt", k_megatron_model);
  EXPECT_EQ(validated(job_from_megatron(*arguments, 512).value()).value().model.vocab, 512);
}

TEST(MegatronArgs, RefusesByNameWhatHasNoRules) {
  EXPECT_EQ(megatron_error_of("--standalone-embedding-stage\n"),
            "args.txt:5: 'standalone_embedding_stage' has no rules here; leave it out");
  EXPECT_EQ(megatron_error_of("--rampup-batch-size 32 32 1953125\n"),
            "args.txt:5: 'rampup_batch_size' has no rules here; leave it out");
  EXPECT_EQ(megatron_error_of("--fp16 --bf16\n"), "args.txt:5: 'fp16' and bf16 are both on; leave one out");
}

TEST(MegatronArgs, NamesWhatItLeavesOut) {
  const Job job =
      read_megatron(
          "--num-distributed-optimizer-instances 2 --log-num-zeros-in-grad\n"
          "--fp32-residual-connection --loss-scale 1024 --moe-aux-loss-coeff 0.01 --brand-new-switch\n")
          .value();
  EXPECT_EQ(job.unmodelled, std::vector<std::string>({"'fp32_residual_connection' (args.txt:6) has no rules",
                                                      "'loss_scale' (args.txt:6) has no rules",
                                                      "unknown key 'brand_new_switch' (args.txt:6)"}));
}

TEST(MegatronArgs, WhatIsSwitchedOffOrChangesNoMessagePassesSilently) {
  const Job job =
      read_megatron(
          "--num-distributed-optimizer-instances 1 --log-params-norm=false --moe-aux-loss-coeff 0\n"
          "--lr 1e-4 --train-iters 10 --log-interval 1 --transformer-impl local --use-flash-attn\n")
          .value();
  EXPECT_TRUE(job.unmodelled.empty()) << job.unmodelled.front();
  EXPECT_TRUE(job.warnings.empty()) << job.warnings.front();
}

TEST(MegatronArgs, AVocabularyOfAnotherTokenizerIsAssumed) {
  EXPECT_TRUE(read_megatron("--tokenizer-type Llama2Tokenizer\n")->model.vocab_is_assumed);
  EXPECT_FALSE(
      read_megatron("--tokenizer-type Llama2Tokenizer --vocab-size 32000\n")->model.vocab_is_assumed);
  EXPECT_FALSE(read_megatron("--tokenizer-type GPT2BPETokenizer\n")->model.vocab_is_assumed);
}

TEST(MegatronArgs, NamesMistakesWithTheirLine) {
  EXPECT_EQ(megatron_error_of("--tensor-model-parallel-size $TP\n"),
            "args.txt:5: 'tensor_model_parallel_size' must be an integer, it is '$TP'");
  EXPECT_EQ(megatron_error_of("--load \"x\n"), "args.txt:5: the quote is never closed");
  EXPECT_EQ(parse_megatron_arguments("a.txt", "4 --x").error().message,
            "a.txt:1: '4' belongs to no argument; a file of Megatron arguments starts with --name");
  EXPECT_EQ(read_megatron("--sequence-paralel\n")->warnings.at(0),
            "args.txt:5: unknown key 'sequence_paralel'; did you mean 'sequence_parallel'?");
}

TEST(MegatronArgs, EveryPrefixOfAFileIsReadOrRefused) {
  const std::string text = k_megatron_model + "--data-path 0.5 \"a b\" 0.5 c\\\nd --lr 1.5e-4 # end";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const Result<ConfigNode> arguments = parse_megatron_arguments("args.txt", text.substr(0, length));
    EXPECT_TRUE(arguments || arguments.error().message.starts_with("args.txt")) << length;
  }
}

}  // namespace
}  // namespace commlens
