// The option space of torchtitan's rules: each random job gives a prediction that keeps the laws of messages,
// or one clear refusal.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"
#include "tests/property/messages.hpp"

namespace commlens {
namespace {

using pytorch::PipelineSchedule;
using torchtitan::Reshard;

/// Draws jobs; the same seed draws the same ones.
class TitanSpace {
 public:
  explicit TitanSpace(std::uint32_t seed) : random_(seed) {}

  Job job() {
    Job job;
    job.framework = "torchtitan";
    ParallelLayout& layout = job.layout;
    layout.pp = chance(0.4) ? number(2, 4) : 1;
    layout.tp = chance(0.4) ? one<std::int64_t>({2, 3, 4}) : 1;
    layout.cp = chance(0.2) ? one<std::int64_t>({2, 3}) : 1;
    layout.virtual_stages = layout.pp > 1 ? number(1, 2) : 1;
    layout.sequence_parallel = layout.tp > 1 && chance(0.6);
    torchtitan::Options& own = torchtitan::options(job);
    own.replicate = chance(0.3) ? number(2, 3) : 1;
    layout.dp = own.replicate * number(1, 4);
    draw_model(job);
    job.train.micro_batch = number(1, 3);
    job.train.micro_batches = number(1, 8);
    job.train.dtype = one<DType>({DType::fp32, DType::bf16});
    job.train.gradient_clipping = 1;
    job.train.recompute = one<Recompute>({Recompute::none, Recompute::full, Recompute::selective});
    own.reshard_after_forward = one<Reshard>({Reshard::by_default, Reshard::always, Reshard::never});
    own.param_dtype = one<DType>({DType::fp32, DType::bf16});
    own.loss_chunks = one<std::int64_t>({0, 2, 8});
    own.log_frequency = one<std::int64_t>({1, 2, 10});
    own.seed = chance(0.7) ? std::optional<std::int64_t>(1) : std::nullopt;
    own.fuses_qkv = chance(0.8);
    own.balances_experts = chance(0.7);
    own.forces_balance = chance(0.5);
    own.schedule = static_cast<PipelineSchedule>(number(0, 6));
    job.train.schedule = pytorch::PipelineSchedule::gpipe == own.schedule ? Schedule::gpipe
                         : own.schedule == PipelineSchedule::one_f_one_b  ? Schedule::one_f_one_b
                                                                          : Schedule::interleaved;
    own.first_stage_less_layers = number(0, 2);
    own.last_stage_less_layers = number(0, 2);
    own.checkpoints = {.is_used = chance(0.3), .interval = number(1, 4)};
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

  void draw_model(Job& job) {
    ModelConfig& model = job.model;
    const std::int64_t tp = job.layout.tp;
    model.name = "random";
    model.family = Family::llama;
    model.gated_mlp = true;
    model.linear_bias = model.qkv_bias = model.norm_bias = false;
    model.kv_heads = number(1, 2) * tp;
    model.heads = model.kv_heads * number(1, 3);
    model.head_dim = 2 * number(1, 5);
    model.hidden = number(10, 60);
    model.ffn_hidden = number(10, 30) * tp;
    model.layers = job.layout.pp * job.layout.virtual_stages * number(1, 3) + number(0, 2);
    model.sequence = model.max_positions = 8 * job.layout.cp * tp * number(1, 3);
    model.vocab = model.raw_vocab = number(20, 200) * tp;
    model.tied_embeddings = chance(0.2);
    model.qk_norm = chance(0.3);
    if (chance(0.3)) {
      model.latent = {number(0, 1) * 12, 16, 8, 4, 8};
      model.kv_heads = model.heads;
      model.qk_norm = false;
    }
    if (chance(0.5)) {
      const std::int64_t inner = job.layout.dp / torchtitan::options(job).replicate * job.layout.cp * tp;
      job.layout.ep = number(1, 4);
      job.layout.ep = inner % job.layout.ep == 0 ? job.layout.ep : 1;
      model.experts = job.layout.ep * number(1, 4);
      model.top_k = number(1, model.experts);
      model.moe_hidden = 12 * number(1, 3) * tp;
      model.dense_layers = number(0, 1);
      model.shared_experts = number(0, 2);
    }
  }

  std::mt19937 random_;
};

/// All that ranks send to experts, in an iteration.
std::int64_t token_elements(const Trace& trace, Iteration iteration) {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      if (op.kind == CommKind::all_to_all && op.dtype != DType::int64 && event.iteration == iteration) {
        sent += op.input.value * stream.ranks.count();
        received += op.output.value * stream.ranks.count();
      }
    }
  }
  EXPECT_EQ(sent, received);
  return sent;
}

TEST(TitanSpace, GivesAPredictionOrOneRefusal) {
  constexpr std::uint32_t seed = 17;
  constexpr int jobs = 1000;
  TitanSpace space(seed);
  int predicted = 0;
  int with_tokens = 0;
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
    const Trace trace = plan->trace(2);
    EXPECT_EQ(unmatched_messages(trace), 0);
    EXPECT_EQ(disagreeing_groups(trace), 0);
    if (job->layout.ep == 1 || job->layout.pp > 1) {
      continue;
    }
    // Every token goes to top_k experts and back, once forward, once with what is computed again, and its
    // gradient once.
    const std::int64_t passes = job->train.recompute == Recompute::none ? 2 : 3;
    const std::int64_t tokens =
        sequences_per_iteration(*job) * job->model.sequence * (job->model.layers - job->model.dense_layers);
    EXPECT_EQ(token_elements(trace, 1), tokens * job->model.top_k * job->model.hidden * passes * 2);
    ++with_tokens;
  }
  EXPECT_GT(predicted, jobs / 4);
  EXPECT_GT(with_tokens, jobs / 50);
}

}  // namespace
}  // namespace commlens
