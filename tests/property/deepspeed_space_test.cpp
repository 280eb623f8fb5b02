// The option space of DeepSpeed's rules, from 0.14.0 to the newest release: each random job gives a
// prediction that keeps the laws of messages, or one clear refusal.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"
#include "tests/property/messages.hpp"
#include "tests/property/spaces.hpp"

namespace commlens {
namespace {

/// Draws jobs; the same seed draws the same ones.
class DeepSpeedSpace : Draws {
 public:
  explicit DeepSpeedSpace(std::uint32_t seed) : Draws(seed) {}

  Job job() {
    Job job;
    job.framework = "deepspeed";
    const std::vector<KnownVersion> releases = deepspeed::known_versions();
    const auto newest = static_cast<std::int64_t>(releases.size()) - 1;
    const std::int64_t release = chance(0.6) ? newest : number(0, newest);
    job.framework_version = releases[static_cast<std::size_t>(release)].last;
    draw_layout(job);
    draw_model(job);
    draw_training(job);
    draw_zero(job);
    draw_client(job);
    return job;
  }

 private:
  /// One way or none to split the model beside the data ranks.
  void draw_layout(Job& job) {
    ParallelLayout& layout = job.layout;
    deepspeed::Options& own = deepspeed::options(job);
    layout.dp = number(1, 4);
    switch (number(0, 9)) {
      case 0:
        layout.tp = number(2, 4);
        own.auto_tp = true;
        break;
      case 1:
        layout.cp = number(2, 4);
        own.sequence_groups =
            one<deepspeed::SequenceGroups>({deepspeed::SequenceGroups::mpu, deepspeed::SequenceGroups::mesh});
        own.has_sequence_loader = chance(0.4);
        break;
      case 2:
        layout.pp = number(2, 4);
        own.dual_pipe = own.pipeline_engine = chance(0.2);
        break;
      case 3:
        layout.replicate = number(2, 3);
        break;
      case 4:
        layout.ep = number(1, 2);
        layout.dp = layout.ep * number(1, 3);
        own.auto_ep = chance(0.4);
        layout.replicate = chance(0.3) && !own.auto_ep ? 2 : 1;
        job.model.experts = layout.ep * number(1, 3);
        job.model.top_k = number(1, 2);
        break;
      default:
        break;
    }
  }

  void draw_model(Job& job) {
    ModelConfig& model = job.model;
    const deepspeed::Options& own = deepspeed::options(job);
    const bool is_llama = own.auto_tp || own.auto_ep || (model.experts == 0 && chance(0.3));
    const std::int64_t parts = job.layout.tp * job.layout.cp;
    model.name = "random";
    model.family = is_llama ? Family::llama : Family::gpt;
    model.gated_mlp = is_llama;
    model.linear_bias = model.qkv_bias = model.norm_bias = !is_llama;
    model.positions = is_llama ? Positions::rotary : Positions::learned;
    model.heads = parts * number(1, 3);
    model.kv_heads = is_llama && chance(0.5) ? parts : model.heads;
    model.head_dim = 2 * number(2, 6);
    model.hidden = model.heads * model.head_dim;
    model.ffn_hidden = is_llama ? parts * number(5, 30) : 4 * model.hidden;
    model.layers = number(1, 4) + job.layout.pp;
    model.sequence = model.max_positions = 4 * parts * number(1, 4);
    model.vocab = model.raw_vocab = number(20, 200);
    model.tied_embeddings = chance(0.15);
  }

  void draw_training(Job& job) {
    TrainConfig& train = job.train;
    deepspeed::Options& own = deepspeed::options(job);
    train.micro_batch = number(1, 3);
    train.micro_batches = number(1, 4) + (own.dual_pipe ? 2 * job.layout.pp : 0);
    train.dtype = one<DType>({DType::fp32, DType::fp16, DType::bf16});
    train.recompute = chance(0.3) ? Recompute::full : Recompute::none;
    train.clipping_is_given = chance(0.3);
    train.gradient_clipping = train.clipping_is_given && chance(0.5) ? 1 : 0;
    own.has_reentrant_checkpoints = chance(0.5);
    own.grad_accumulation_dtype = chance(0.2) ? std::optional(DType::fp32) : std::nullopt;
    own.communication_dtype = chance(0.2) ? std::optional(DType::fp16) : std::nullopt;
    if (train.dtype == DType::bf16 && chance(0.2)) {
      own.checks_bf16_overflow = chance(0.5);
    }
    if (train.dtype == DType::fp32 && chance(0.2)) {
      own.autocast = one<DType>({DType::fp16, DType::bf16});
    }
  }

  void draw_zero(Job& job) {
    TrainConfig& train = job.train;
    deepspeed::Options& own = deepspeed::options(job);
    train.zero_stage = static_cast<int>(job.layout.pp > 1 || own.dual_pipe ? number(0, 1) : number(0, 3));
    train.persistence_threshold = one<std::int64_t>({0, 100, 100'000});
    own.reduce_bucket_size = one<std::int64_t>({500, 5000, 500'000'000});
    own.reduce_scatter = !chance(0.15);
    own.contiguous_gradients = !chance(0.1);
    own.use_multi_rank_bucket_allreduce = !chance(0.15);
    own.overlap_comm = chance(0.5);
    own.round_robin_gradients = chance(0.1);
    own.computes_norm = !chance(0.1);
    own.aligns_parameters = chance(0.1);
    own.weight_decay_groups = chance(0.3);
    if (train.zero_stage < 3) {
      return;
    }
    own.prefetch_bucket_size = one<std::int64_t>({0, 1000, 50'000'000});
    own.max_live_parameters = one<std::int64_t>({0, 10'000, 1'000'000'000});
    own.max_reuse_distance = one<std::int64_t>({0, 5000, 1'000'000'000});
    own.sub_group_size = one<std::int64_t>({1000, 1'000'000'000});
    own.memory_efficient_linear = !chance(0.2);
    own.zero_init = chance(0.3);
    own.has_sanity_checks = chance(0.2);
    own.all_reduce_fetch = chance(0.1);
    own.sequential_gather = chance(0.1);
    own.granularity = chance(0.1) ? number(100, 20'000) : 0;
    train.hpz = chance(0.15) ? job.layout.dp : 1;
    train.quantized_weights = chance(0.1);
    train.quantized_gradients = chance(0.1);
    if (chance(0.1)) {
      own.leaf_modules.classes = {"Block"};
    }
    if (chance(0.1)) {
      own.gathered = {{"blocks.0"}, 0};
    }
    if (chance(0.1)) {
      own.skipped = {number(0, 2), {number(0, 4)}};
    }
  }

  void draw_client(Job& job) {
    deepspeed::Options& own = deepspeed::options(job);
    own.attention_mask = chance(0.2);
    own.dynamic_shape = chance(0.1);
    own.additional_losses = chance(0.1) ? number(1, 2) : 0;
    own.manages_accumulation = !chance(0.05);
    own.coalesces_reductions = chance(0.05);
    own.is_trainer = job.model.family == Family::llama && job.layout.tp == 1 && chance(0.2);
    if (job.model.experts > 0 && !own.auto_ep) {
      own.mixture = {{number(0, 1)}, 1.0, number(0, 4), chance(0.7), chance(0.5)};
    }
    if (chance(0.1)) {
      own.frozen = {"embed"};
    }
    if (chance(0.1)) {
      own.low_rank = {{"qkv", "fc1"}, 2};
    }
    if (chance(0.1)) {
      own.evaluated_before = {number(0, 3)};
    }
    if (job.train.dtype == DType::fp16 && chance(0.1)) {
      own.overflows_in = {number(0, 3)};
    }
    if (chance(0.1)) {
      own.saves_after = number(0, 3);
    }
  }
};

TEST(DeepSpeedSpace, GivesAPredictionOrOneRefusal) {
  constexpr int jobs = 1000;
  const int predicted = predicted_jobs<DeepSpeedSpace>(18, jobs, [](const Job&, const Plan& plan) {
    const Trace trace = plan.trace(6);
    EXPECT_EQ(unmatched_messages(trace), 0);
    EXPECT_EQ(disagreeing_groups(trace), 0);
  });
  EXPECT_GT(predicted, jobs / 3);
}

}  // namespace
}  // namespace commlens
