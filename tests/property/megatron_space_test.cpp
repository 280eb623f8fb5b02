// Random jobs over all settings of Megatron, and what degrees of one and experts send.
#include <cstdint>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "tests/property/messages.hpp"
#include "tests/property/spaces.hpp"

namespace commlens {
namespace {

/// A GPT of 8 layers on four ranks.
Job megatron_job() {
  Job job;
  job.framework = "megatron";
  job.framework_version = "0.19.2";
  job.model = {.name = "random", .layers = 8, .hidden = 32, .heads = 4, .kv_heads = 4};
  job.model.head_dim = 8;
  job.model.ffn_hidden = 128;
  job.model.sequence = job.model.max_positions = 16;
  job.model.vocab = job.model.raw_vocab = 128;
  job.layout.dp = 4;
  job.train.micro_batch = 2;
  job.train.micro_batches = 2;
  megatron::options(job).is_transformer_engine = false;
  megatron::options(job).log_interval = 1;
  return job;
}

class MegatronSpace : Draws {
 public:
  explicit MegatronSpace(std::uint32_t seed) : Draws(seed) {}

  Job job() {
    Job job = megatron_job();
    job.framework_version =
        one<const char*>({"0.7.0", "0.9.0", "0.19.2", "0.19.2", "0.10.0", "0.11.0", "0.12.0", "0.12.3",
                          "0.13.1", "0.14.0", "0.15.3", "0.16.1", "0.17.1", "0.18.2", "0.19.2"});
    job.iterations = number(1, 5);
    job.model.layers = number(1, 12);
    job.model.tied_embeddings = chance(0.3);
    job.model.linear_bias = chance(0.6);
    job.train.dtype = one({DType::fp32, DType::fp16, DType::bf16});
    job.train.recompute = one({Recompute::none, Recompute::none, Recompute::full, Recompute::selective});
    job.train.micro_batches = number(1, 9);
    job.train.zero_stage = static_cast<int>(number(0, 1));
    draw_layout(job);
    draw_model(job);
    draw_gradients(job);
    draw_loop(job);
    if (chance(0.4)) {
      draw_experts(job);
    }
    return job;
  }

 private:
  void draw_layout(Job& job) {
    megatron::Options& own = megatron::options(job);
    job.layout.tp = one<std::int64_t>({1, 1, 2, 4});
    job.layout.dp = one<std::int64_t>({1, 2, 4});
    job.layout.pp = one<std::int64_t>({1, 1, 2, 3, 4});
    job.layout.cp = chance(0.1) ? 2 : 1;
    job.layout.sequence_parallel = chance(0.5);
    job.layout.virtual_stages = job.layout.pp > 1 && chance(0.4) ? number(2, 3) : 1;
    own.overlaps_p2p = chance(0.7);
    own.overlaps_p2p_at_ends = chance(0.2);
    own.micro_batch_group = chance(0.2) ? number(1, 6) : 0;
    own.layers_of_first_stage = chance(0.1) ? number(1, 3) : 0;
    own.layers_of_last_stage = chance(0.1) ? number(1, 3) : 0;
    own.embedding_counts_as_layer = chance(0.1);
    own.loss_counts_as_layer = chance(0.1);
    own.mtp_layers = chance(0.2) ? number(1, 2) : 0;
    own.variable_seq_lengths = chance(0.1);
  }

  void draw_model(Job& job) {
    megatron::Options& own = megatron::options(job);
    if (chance(0.15)) {
      job.model.latent = {.query_rank = one<std::int64_t>({0, 16}),
                          .kv_rank = 8,
                          .nope_dim = 8,
                          .rope_dim = 4,
                          .value_dim = 8};
    }
    job.model.kv_heads = one<std::int64_t>({1, 2, 4, 4});
    job.model.gated_mlp = chance(0.3);
    job.model.qk_norm = chance(0.2);
    own.cross_entropy = one({megatron::CrossEntropy::unfused, megatron::CrossEntropy::native,
                             megatron::CrossEntropy::transformer_engine});
    own.is_transformer_engine = job.layout.cp > 1 || chance(0.2);
    own.recompute_num_layers = number(1, 3);
    own.recompute_method = one<const char*>({"uniform", "block"});
    own.recompute_modules = {
        one<const char*>({"core_attn", "core_attn", "core_attn", "core_attn", "mlp", "moe", "moe_act",
                          "layernorm", "mla_up_proj", "shared_experts"})};
    job.train.partition_activations = chance(0.2);
    if (chance(0.1)) {
      job.model.layers = 5;
      job.layout.pp = 2;
      job.layout.virtual_stages = 2;
      own.stage_layout = one<const char*>({"Et|tt|t|tL", "Ett|t|t|tL", "E|tt|tt|tL", "Et|tt|t|tmL"});
    }
  }

  void draw_gradients(Job& job) {
    megatron::Options& own = megatron::options(job);
    own.gradients_in_bf16 = chance(0.2);
    own.overlap_grad_reduce = chance(0.5);
    own.overlap_param_gather = chance(job.train.zero_stage > 0 && own.overlap_grad_reduce ? 0.5 : 0.02);
    own.aligns_grad_reduce = chance(0.7);
    own.aligns_param_gather = chance(0.7);
    own.bucket_size = one<std::int64_t>({0, 1000, 20'000});
    own.buckets = chance(0.1) ? number(1, 5) : 0;
    own.pads_buckets = chance(0.1);
    own.scatters_by_all_to_all = chance(0.1);
    own.broadcasts_parameters = chance(0.2);
    own.instances = chance(0.1) ? 2 : 1;
    own.is_muon = chance(0.05);
    own.is_megatron_fsdp = chance(0.05);
    own.is_torch_fsdp2 = chance(0.05);
    own.counts_tokens = chance(0.2);
  }

  void draw_loop(Job& job) {
    megatron::Options& own = megatron::options(job);
    own.has_attention_mask = chance(0.5);
    own.rerun_mode = chance(0.3) ? "disabled" : "";
    own.log_interval = number(1, 4);
    own.timing_level = static_cast<int>(number(0, 2));
    own.logs_params_norm = chance(0.2);
    own.logs_zeros = chance(0.2);
    own.handles_signals = chance(0.1);
    own.eval_interval = number(0, 3);
    own.eval_iterations = number(0, 2);
    job.train.gradient_clipping = chance(0.7) ? 1.0 : 0.0;
  }

  void draw_experts(Job& job) {
    megatron::Options& own = megatron::options(job);
    job.model.experts = one<std::int64_t>({2, 4, 8});
    job.model.top_k = number(1, 3);
    job.layout.ep = one<std::int64_t>({1, 2, 4});
    own.expert_tp = one<std::int64_t>({0, 1, 2});
    own.moe_dispatcher = one<const char*>({"allgather", "alltoall", "flex"});
    own.balancing = {one<const char*>({"aux_loss", "seq_aux_loss", "global_aux_loss", "none"})};
    own.balancing_coefficients = {chance(0.5) ? 0.01 : 0.0};
    if (chance(0.2)) {
      own.balancing = {"aux_loss", "global_aux_loss"};
      own.balancing_coefficients = {0.01, 0.0};
    }
    own.overlaps_expert_exchange = chance(0.1);
    job.model.dense_layers = chance(0.2) ? 1 : 0;
    own.has_z_loss = chance(0.2);
    own.has_expert_bias = chance(0.2);
    own.expert_capacity = chance(0.3) ? 1.0 : 0.0;
    own.pads_to_capacity = chance(0.3);
    own.shared_expert_hidden = chance(0.2) ? 64 : 0;
    own.overlaps_shared_expert = chance(0.2);
  }
};

TEST(MegatronSpace, GivesAPredictionOrOneRefusal) {
  constexpr int jobs = 1000;
  const int predicted = predicted_jobs<MegatronSpace>(19, jobs, [](const Job&, const Plan& plan) {
    const Trace trace = plan.trace(4);
    EXPECT_EQ(unmatched_messages(trace), 0);
    EXPECT_EQ(disagreeing_groups(trace), 0);
  });
  EXPECT_GT(predicted, jobs / 8);
}

Plan planned(Job job) { return make_plan(validated(std::move(job)).value()).value(); }

/// Elements of a rank's calls of one kind in a phase of a steady iteration.
std::int64_t elements_of(const Plan& plan, CommKind kind, Phase phase) {
  std::int64_t elements = 0;
  for (const PlanStep& step : plan.classes.front().at(3).steps) {
    if (step.kind == PlanStep::Kind::call) {
      const CommOp& op = plan.tables.op(step.op());
      elements += op.kind == kind && op.phase == phase ? op.input.value : 0;
    }
  }
  return elements;
}

/// One rank sends only what Megatron itself sends on groups of one.
TEST(MegatronDegrees, OneRankHasGroupsOfOne) {
  Job job = megatron_job();
  job.layout.dp = 1;
  const Plan plan = planned(job);
  for (const PlanStep& step : plan.classes.front().at(3).steps) {
    if (step.kind == PlanStep::Kind::call) {
      EXPECT_EQ(plan.tables.groups.size(plan.tables.op(step.op()).group), 1);
    }
  }
}

TEST(MegatronDegrees, OneTensorRankHasNoUseForSequenceParallelism) {
  const Plan plain = planned(megatron_job());
  Job job = megatron_job();
  job.layout.sequence_parallel = true;
  megatron::options(job).expert_tp = 1;
  megatron::options(job).instances = 1;
  EXPECT_EQ(planned(job).classes.front().at(3), plain.classes.front().at(3));
}

/// Tokens go to their experts with probabilities and come back; the backward pass does the same the other
/// way. By hand: 8 layers x 2 micro-batches x 2 x 16 tokens x top 2 x (32 there, 1 probability, 32 back).
TEST(MegatronExperts, WhatIsSentToExpertsComesBack) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    Job job = megatron_job();
    job.model.experts = 4;
    job.model.top_k = 2;
    job.model.linear_bias = false;
    job.layout.ep = ranks;
    megatron::options(job).moe_dispatcher = "alltoall";
    const Plan plan = planned(job);
    const std::int64_t expected = ranks == 1 ? 0 : std::int64_t{8} * 2 * 2 * 16 * 2 * (32 + 1 + 32);
    EXPECT_EQ(elements_of(plan, CommKind::all_to_all, Phase::forward), expected) << ranks;
    EXPECT_EQ(elements_of(plan, CommKind::all_to_all, Phase::backward), expected) << ranks;
  }
}

}  // namespace
}  // namespace commlens
