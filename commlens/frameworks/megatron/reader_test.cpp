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
  EXPECT_EQ(megatron_error_of("--experimental-attention-variant dsa\n"),
            "args.txt:5: 'experimental_attention_variant' has no rules here; leave it out");
  EXPECT_EQ(megatron_error_of("--hybrid-layer-pattern M*M*\n"),
            "args.txt:5: 'hybrid_layer_pattern' describes another model than a GPT, which has no rules here");
  EXPECT_EQ(megatron_error_of("--fp16 --bf16\n"), "args.txt:5: 'fp16' and bf16 are both on; leave one out");
}

TEST(MegatronArgs, SaysWhatTookThePlaceOfOldArguments) {
  EXPECT_EQ(megatron_error_of("--model-parallel-size 2\n"),
            "args.txt:5: 'model_parallel_size' is no longer valid; give tensor-model-parallel-size");
  EXPECT_EQ(megatron_error_of("--checkpoint-activations\n"),
            "args.txt:5: 'checkpoint_activations' is no longer valid; give recompute-granularity and "
            "recompute-method");
}

TEST(MegatronArgs, NamesWhatItLeavesOut) {
  const Job job = read_megatron(
                      "--num-distributed-optimizer-instances 2 --log-num-zeros-in-grad\n"
                      "--fp32-residual-connection --loss-scale 1024 --rampup-batch-size 32 32 1953125 "
                      "--brand-new-switch\n"
                      "--outer-dp-sharding-strategy optim --fp8-format hybrid\n")
                      .value();
  EXPECT_EQ(
      job.unmodelled,
      std::vector<std::string>(
          {"'fp32_residual_connection' (args.txt:6) has no rules", "'fp8_format' (args.txt:7) has no rules",
           "'loss_scale' (args.txt:6) has no rules", "'rampup_batch_size' (args.txt:6) has no rules",
           "'outer_dp_sharding_strategy' (args.txt:7) has no rules",
           "unknown key 'brand_new_switch' (args.txt:6)"}));
}

TEST(MegatronArgs, WhatIsSwitchedOffOrChangesNoMessagePassesSilently) {
  const Job job =
      read_megatron(
          "--num-distributed-optimizer-instances 1 --log-params-norm=false --moe-aux-loss-coeff 0\n"
          "--lr 1e-4 --train-iters 10 --log-interval 1 --transformer-impl local --use-flash-attn\n"
          "--outer-dp-sharding-strategy no_shard --tensorboard-dir $DIR --no-rope-fusion --num-workers 4\n"
          "--loss-scale 0 --log-timers-to-tensorboard\n")
          .value();
  EXPECT_TRUE(job.unmodelled.empty()) << job.unmodelled.front();
  EXPECT_TRUE(job.warnings.empty()) << job.warnings.front();
}

TEST(MegatronArgs, ReadsTheStagesOfToday) {
  const Job job = read_megatron(
                      "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 3\n"
                      "--microbatch-group-size-per-virtual-pipeline-stage 8 --no-overlap-p2p-communication\n")
                      .value();
  EXPECT_EQ(job.layout.virtual_stages, 3);
  EXPECT_EQ(job.train.schedule, Schedule::interleaved);
  EXPECT_EQ(megatron::options(job).micro_batch_group, 8);
  EXPECT_FALSE(megatron::options(job).overlaps_p2p);
  const Job uneven = read_megatron(
                         "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5\n"
                         "--decoder-last-pipeline-num-layers 7 --overlap-p2p-communication-warmup-flush\n")
                         .value();
  EXPECT_EQ(megatron::options(uneven).layers_of_first_stage, 5);
  EXPECT_EQ(megatron::options(uneven).layers_of_last_stage, 7);
  EXPECT_TRUE(megatron::options(uneven).overlaps_p2p_at_ends);
  EXPECT_EQ(
      megatron_error_of(
          "--num-virtual-stages-per-pipeline-rank 3 --num-layers-per-virtual-pipeline-stage 2\n"),
      "args.txt:5: 'num_virtual_stages_per_pipeline_rank' and num_layers_per_virtual_pipeline_stage both "
      "stand here; leave one out");
}

TEST(MegatronArgs, TheEmbeddingAndTheLossMayCountAsLayers) {
  // 26 layers of 2 stages, 13 each, one a chunk
  const Job job = read_megatron(
                      "--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split\n"
                      "--account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 1\n")
                      .value();
  EXPECT_EQ(job.layout.virtual_stages, 13);
  EXPECT_TRUE(megatron::options(job).embedding_counts_as_layer);
  EXPECT_TRUE(megatron::options(job).loss_counts_as_layer);
}

TEST(MegatronArgs, AWrittenLayoutDecidesTheVirtualStages) {
  const Job job =
      read_megatron(
          "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*3|(t*3|)*6,t*3L'\n")
          .value();
  EXPECT_EQ(megatron::options(job).stage_layout, "Et*3|(t*3|)*6,t*3L");
  EXPECT_EQ(job.layout.virtual_stages, 2);
  EXPECT_EQ(megatron_error_of("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et|tL'\n"),
            "args.txt:5: 'pipeline_model_parallel_layout' has 2 parts, which 4 pipeline stages cannot share");
}

TEST(MegatronArgs, ReadsWhatTheOptimizerOverlaps) {
  const Job job =
      read_megatron(
          "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --no-align-param-gather\n"
          "--no-align-grad-reduce --ddp-bucket-size 40000000 --ddp-average-in-collective --bf16\n"
          "--ddp-pad-buckets-for-high-nccl-busbw --grad-reduce-in-bf16 --num-distributed-optimizer-instances "
          "2\n"
          "--ddp-reduce-scatter-with-fp32-accumulation --overlap-param-gather-with-optimizer-step\n")
          .value();
  const megatron::Options& own = megatron::options(job);
  EXPECT_TRUE(own.overlap_param_gather);
  EXPECT_FALSE(own.aligns_param_gather);
  EXPECT_FALSE(own.aligns_grad_reduce);
  EXPECT_EQ(own.bucket_size, 40'000'000);
  EXPECT_TRUE(own.averages_in_collective);
  EXPECT_TRUE(own.pads_buckets);
  EXPECT_TRUE(own.gradients_in_bf16);
  EXPECT_FALSE(own.gradients_in_fp32);
  EXPECT_EQ(own.instances, 2);
  EXPECT_TRUE(own.scatters_by_all_to_all);
  EXPECT_TRUE(own.gathers_with_step);
  EXPECT_TRUE(job.unmodelled.empty());
}

TEST(MegatronArgs, ReadsTheMixturesOfToday) {
  const Job job =
      read_megatron(
          "--num-experts 64 --moe-router-topk 8 --moe-ffn-hidden-size 512 --swiglu --disable-bias-linear\n"
          "--moe-shared-expert-intermediate-size 1024 --moe-shared-expert-overlap "
          "--expert-model-parallel-size 8\n"
          "--expert-tensor-parallel-size 1 --moe-layer-freq ([0]*3+[1]*21) --moe-token-dispatcher-type flex\n"
          "--moe-flex-dispatcher-backend hybridep --moe-router-load-balancing-type seq_aux_loss aux_loss\n"
          "--moe-aux-loss-coeff 1e-4 0.5 --moe-z-loss-coeff 1e-3 --moe-router-dtype fp32\n"
          "--moe-router-enable-expert-bias --moe-expert-capacity-factor 1.5 "
          "--moe-pad-expert-input-to-capacity\n")
          .value();
  const megatron::Options& own = megatron::options(job);
  EXPECT_EQ(job.model.experts, 64);
  EXPECT_EQ(job.model.top_k, 8);
  EXPECT_EQ(job.model.moe_hidden, 512);
  EXPECT_EQ(job.model.shared_experts, 2);
  EXPECT_EQ(job.model.dense_layers, 3);
  EXPECT_EQ(own.shared_expert_hidden, 1024);
  EXPECT_TRUE(own.overlaps_shared_expert);
  EXPECT_EQ(own.expert_tp, 1);
  ASSERT_EQ(own.moe_layers.size(), 24U);
  EXPECT_FALSE(own.moe_layers[2]);
  EXPECT_TRUE(own.moe_layers[3]);
  EXPECT_EQ(own.moe_dispatcher, "flex");
  EXPECT_EQ(own.flex_backend, "hybridep");
  EXPECT_EQ(own.balancing, std::vector<std::string>({"seq_aux_loss", "aux_loss"}));
  EXPECT_EQ(own.balancing_coefficients, std::vector<double>({1e-4, 0.5}));
  EXPECT_TRUE(own.has_z_loss);
  EXPECT_EQ(own.router_dtype, DType::fp32);
  EXPECT_TRUE(own.has_expert_bias);
  EXPECT_EQ(own.expert_capacity, 1.5);
  EXPECT_TRUE(own.pads_to_capacity);
}

TEST(MegatronArgs, ReadsLatentAttentionAndFurtherTokens) {
  const Job job = read_megatron(
                      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128\n"
                      "--qk-pos-emb-head-dim 64 --v-head-dim 128 --mtp-num-layers 1 --qk-layernorm\n")
                      .value();
  EXPECT_EQ(job.model.latent.query_rank, 1536);
  EXPECT_EQ(job.model.latent.kv_rank, 512);
  EXPECT_EQ(job.model.latent.nope_dim, 128);
  EXPECT_EQ(job.model.latent.rope_dim, 64);
  EXPECT_EQ(job.model.latent.value_dim, 128);
  EXPECT_TRUE(job.model.qk_norm);
  EXPECT_EQ(megatron::options(job).mtp_layers, 1);
  EXPECT_FALSE(read_megatron("--kv-lora-rank 512\n")->model.latent.is_used());
}

TEST(MegatronArgs, ReadsTheLoopAroundTheSteps) {
  const Job job =
      read_megatron(
          "--no-create-attention-mask-in-dataloader --rerun-mode disabled --log-interval 2 "
          "--timing-log-level 1\n"
          "--no-barrier-with-level-1-timing --log-params-norm --log-num-zeros-in-grad --exit-signal-handler\n"
          "--exit-duration-in-mins 30 --eval-interval 2 --eval-iters 1 --calculate-per-token-loss\n"
          "--cross-entropy-loss-fusion --recompute-granularity selective --recompute-modules mlp moe_act\n"
          "--log-timers-to-tensorboard\n")
          .value();
  const megatron::Options& own = megatron::options(job);
  EXPECT_FALSE(own.has_attention_mask);
  EXPECT_EQ(own.rerun_mode, "disabled");
  EXPECT_EQ(own.log_interval, 2);
  EXPECT_EQ(own.timing_level, 1);
  EXPECT_FALSE(own.barriers_at_level1);
  EXPECT_TRUE(own.logs_params_norm);
  EXPECT_TRUE(own.logs_zeros);
  EXPECT_TRUE(own.handles_signals);
  EXPECT_EQ(own.exit_minutes, 30);
  EXPECT_EQ(own.eval_interval, 2);
  EXPECT_EQ(own.eval_iterations, 1);
  EXPECT_TRUE(own.counts_tokens);
  EXPECT_EQ(own.cross_entropy, megatron::CrossEntropy::native);
  EXPECT_EQ(own.recompute_modules, std::vector<std::string>({"mlp", "moe_act"}));
  EXPECT_TRUE(own.writes_timers);
}

TEST(MegatronArgs, TakesOlderNamesAndFieldsOfConfigurations) {
  const Job job =
      read_megatron(
          "--use_custom_fsdp --layernorm_epsilon 1e-6 --moe-layer-recompute --delay-param-gather\n"
          "--num_moe_experts 4 --add_bias_linear=false --overlap_p2p_comm=false\n")
          .value();
  const megatron::Options& own = megatron::options(job);
  EXPECT_TRUE(own.is_megatron_fsdp);
  EXPECT_EQ(own.sharding, megatron::Sharding::optim_grads_params);
  EXPECT_EQ(job.model.norm_epsilon, 1e-6);
  EXPECT_EQ(job.train.recompute, Recompute::selective);
  EXPECT_EQ(own.recompute_modules, std::vector<std::string>({"core_attn", "moe"}));
  EXPECT_TRUE(own.aligns_param_gather);
  EXPECT_EQ(job.model.experts, 4);
  EXPECT_FALSE(job.model.linear_bias);
  EXPECT_FALSE(own.overlaps_p2p);
  EXPECT_TRUE(job.unmodelled.empty());
}

TEST(MegatronArgs, AVocabularyOfAnotherTokenizerIsAssumed) {
  EXPECT_TRUE(read_megatron("--tokenizer-type Llama2Tokenizer\n")->model.vocab_is_assumed);
  EXPECT_FALSE(
      read_megatron("--tokenizer-type Llama2Tokenizer --vocab-size 32000\n")->model.vocab_is_assumed);
  EXPECT_FALSE(read_megatron("--tokenizer-type GPT2BPETokenizer\n")->model.vocab_is_assumed);
}

TEST(MegatronArgs, NamesMistakesWithTheirLine) {
  EXPECT_EQ(megatron_error_of("--tensor-model-parallel-size $TP\n"),
            "args.txt:5: 'tensor_model_parallel_size' is '$TP', and nothing in the file says what $TP is; "
            "write its value");
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
