// The whole option space of PyTorch's rules: each random job gives a prediction that keeps the laws of
// messages, or one clear refusal.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"
#include "tests/property/messages.hpp"

namespace commlens {
namespace {

using pytorch::Ddp;
using pytorch::Fsdp;
using pytorch::FsdpStrategy;
using pytorch::Optimizer;
using pytorch::Options;
using pytorch::PipelineSchedule;
using pytorch::ReshardAfterForward;
using pytorch::RingMethod;
using pytorch::Unit;

/// Draws jobs; the same seed draws the same ones.
class TorchSpace {
 public:
  explicit TorchSpace(std::uint32_t seed) : random_(seed) {}

  Job job() {
    Job job;
    job.framework = one<std::string>({"torch-ddp", "torch-fsdp", "torch-tp", "torch-pipeline"});
    job.framework_version =
        one<std::string>({"2.6.0", "2.7", "2.8", "2.9.1", "2.10.0", "2.12.1", "2.14", "2.15.0", ""});
    draw_layout(job);
    draw_model(job);
    job.train.micro_batch = number(1, 3);
    job.train.micro_batches = chance(0.5) ? number(1, 3) : number(1, 16);
    job.train.dtype = one<DType>({DType::fp32, DType::bf16});
    job.train.gradient_clipping = chance(0.2) ? 1.0 : 0.0;
    job.train.recompute =
        one<Recompute>({Recompute::none, Recompute::none, Recompute::full, Recompute::selective});
    Options& own = pytorch::options(job);
    if (chance(0.3)) {
      draw_ddp(own.ddp, job.layout.dp);
    }
    if (chance(0.7)) {
      draw_fsdp(own.fsdp, own.data_shard * job.layout.cp);
    }
    own.tensor = {.loss_parallel = chance(0.5), .init_from_rank0 = chance(0.5)};
    own.ring = one<RingMethod>({RingMethod::all_gather, RingMethod::all_to_all, RingMethod::kv_all_gather});
    own.pipeline = {.schedule = static_cast<PipelineSchedule>(number(0, 6)),
                    .has_static_shapes = chance(0.5)};
    own.trainer = {.clip = false,
                   .norm_full_tensor = chance(0.3),
                   .optimizer = one<Optimizer>({Optimizer::adamw, Optimizer::adamw_foreach, Optimizer::sgd})};
    return job;
  }

 private:
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  template <typename Value>
  Value one(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

  void draw_layout(Job& job) {
    job.layout.pp = chance(0.4) ? number(2, 6) : 1;
    job.layout.tp = chance(0.4) ? one<std::int64_t>({2, 3, 4}) : 1;
    job.layout.cp = chance(0.2) ? one<std::int64_t>({2, 3}) : 1;
    job.layout.virtual_stages = job.layout.pp > 1 ? number(1, 3) : 1;
    job.layout.sequence_parallel = job.layout.tp > 1 && chance(0.6);
    pytorch::options(job).data_shard = number(1, 4);
    job.layout.dp = pytorch::options(job).data_shard * (chance(0.3) ? number(2, 3) : 1);
  }
  void draw_model(Job& job) {
    ModelConfig& model = job.model;
    const bool is_llama = chance(0.75);
    model.name = "random";
    model.family = is_llama ? Family::llama : Family::gpt;
    model.gated_mlp = is_llama;
    model.linear_bias = model.qkv_bias = model.norm_bias = !is_llama;
    model.positions = is_llama ? Positions::rotary : Positions::learned;
    model.kv_heads = number(1, 2) * job.layout.tp;
    model.heads = model.kv_heads * (is_llama ? number(1, 3) : 1);
    model.head_dim = 2 * number(1, 5);
    model.hidden = is_llama ? number(10, 60) : model.heads * model.head_dim;
    model.ffn_hidden = is_llama ? number(10, 30) * (chance(0.9) ? job.layout.tp : 1) : 4 * model.hidden;
    model.layers = chance(0.9) ? job.layout.pp * job.layout.virtual_stages * number(1, 3) : number(1, 9);
    model.sequence = model.max_positions = 2 * job.layout.cp * job.layout.tp * number(1, 4);
    model.vocab = model.raw_vocab = number(20, 200);
    model.tied_embeddings = chance(0.2);
    model.has_batch_norm = chance(0.1);
    draw_parts(model);
  }
  void draw_parts(ModelConfig& model) {
    const std::string layer = "layers." + std::to_string(number(0, model.layers - 1));
    if (chance(0.2)) {
      model.frozen = {one<std::string>({"tok_embeddings.*", "*norm*", layer + ".*", "output.weight", "*"})};
    }
    if (chance(0.2)) {
      model.unused = {chance(0.5) ? layer : layer + ".feed_forward"};
    }
    if (chance(0.1)) {
      model.fp32_patterns = {one<std::string>({"*norm*", "tok_embeddings.*"})};
    }
  }
  void draw_ddp(Ddp& ddp, std::int64_t ranks) {
    ddp.is_used = true;
    if (chance(0.5)) {
      ddp.bucket_cap = Bytes{number(1, 100000)};
    }
    if (chance(0.2)) {
      ddp.bucket_caps = {Bytes{number(1, 10000)}, Bytes{number(1, 100000)}};
    }
    ddp.find_unused_parameters = chance(0.4);
    ddp.static_graph = chance(0.2);
    ddp.broadcast_buffers = chance(0.8);
    ddp.init_sync = chance(0.9);
    ddp.skip_all_reduce_unused_params = chance(0.1);
    ddp.accumulation_sync = chance(0.5);
    if (chance(0.1)) {
      ddp.hook_dtype = DType::fp16;
    }
    if (chance(0.1)) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        ddp.join_inputs.push_back(number(1, 4));
      }
    }
  }
  void draw_fsdp(Fsdp& fsdp, std::int64_t shard) {
    fsdp.is_used = true;
    fsdp.version = chance(0.85) ? 2 : 1;
    fsdp.is_replicate = chance(0.1);
    fsdp.units.clear();
    for (const Unit unit : {Unit::embedding, Unit::blocks, Unit::block_pairs, Unit::head_with_norm,
                            Unit::embedding_with_head, Unit::root}) {
      const bool is_usual = unit == Unit::blocks || unit == Unit::root;
      if (chance(is_usual ? 0.95 : 0.15)) {
        fsdp.units.push_back(unit);
      }
    }
    std::shuffle(fsdp.units.begin(), fsdp.units.end(), random_);
    fsdp.reshard_after_forward.kind = static_cast<ReshardAfterForward::Kind>(number(0, 3));
    fsdp.reshard_after_forward.size =
        fsdp.reshard_after_forward.kind == ReshardAfterForward::Kind::to_size ? number(1, shard) : 0;
    fsdp.reshard_after_backward = chance(0.7);
    fsdp.param_dtype = one<std::optional<DType>>({std::nullopt, std::nullopt, DType::bf16, DType::fp16});
    fsdp.reduce_dtype = one<std::optional<DType>>({std::nullopt, std::nullopt, DType::fp32, DType::fp16});
    if (chance(0.2)) {
      fsdp.divide_factor = static_cast<double>(number(1, 8));
    }
    fsdp.forward_prefetch = chance(0.2) ? number(1, 3) : 0;
    fsdp.backward_prefetch = chance(0.2) ? number(1, 3) : 0;
    fsdp.reduce_scatter_unused_params = chance(0.1);
    fsdp.sync_each_micro_batch = chance(0.7);
    fsdp.all_reduce_each_micro_batch = chance(0.7);
    fsdp.strategy = static_cast<FsdpStrategy>(number(0, 4));
    fsdp.use_orig_params = chance(0.5);
    fsdp.sync_module_states = chance(0.3);
  }

  std::mt19937 random_;
};

TEST(TorchSpace, GivesAPredictionOrOneRefusal) {
  constexpr std::uint32_t seed = 20;
  constexpr int jobs = 1000;
  TorchSpace space(seed);
  int predicted = 0;
  for (int number = 0; number < jobs; ++number) {
    SCOPED_TRACE("job " + std::to_string(number) + " of seed " + std::to_string(seed));
    const Result<Job> job = validated(space.job());
    const Result<Plan> plan = job ? make_plan(*job) : Result<Plan>(tl::unexpected(job.error()));
    if (!plan) {
      EXPECT_FALSE(plan.error().message.empty());
      EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++predicted;
    // 2.9 sends 8 bytes in its handshake, into receives of 4.
    if (job->framework_version != "2.9.1") {
      EXPECT_EQ(unmatched_messages(plan->trace(3)), 0);
    }
  }
  EXPECT_GT(predicted, jobs / 10);
}

}  // namespace
}  // namespace commlens
