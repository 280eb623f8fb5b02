// What a rank of Megatron keeps of its layers, by hand.
#include "commlens/frameworks/memory.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens::megatron {
namespace {

/// Two layers of hidden 64 in bf16 with attention that keeps no scores: an MLP of 256, then 4 experts of 32,
/// of which a token takes 2. One micro-batch of 2 x 16 tokens.
Job mixture() {
  Job job;
  job.framework = k_name;
  job.model = {.name = "small", .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 4};
  job.model.head_dim = 16;
  job.model.ffn_hidden = 256;
  job.model.gated_mlp = true;
  job.model.linear_bias = false;
  job.model.sequence = job.model.max_positions = 16;
  job.model.vocab = job.model.raw_vocab = 128;
  job.model.experts = 4;
  job.model.top_k = 2;
  job.model.moe_hidden = 32;
  job.model.dense_layers = 1;
  options(job).moe_layers = {false, true};
  job.train.micro_batch = 2;
  job.train.dtype = DType::bf16;
  job.train.attention = Attention::flash;
  return job;
}

constexpr std::int64_t k_tokens = 32;
// Bytes a token of both layers: inputs and outputs of norms 2 x 4 x 128, masks 2 x 128; queries, keys, values
// and what attention makes of them 2 x 4 x 128.
constexpr std::int64_t k_attention = 1024 + 256 + 1024;
constexpr std::int64_t k_mlp = 2 * 3 * 256;
constexpr std::int64_t k_expert_inputs = 2 * 2 * 64;
constexpr std::int64_t k_experts = 2 * 2 * 3 * 32;

std::int64_t kept(const Job& job) { return memory_per_rank(validated(job).value()).activations.value; }

std::int64_t kept_with(const std::vector<std::string>& modules) {
  Job job = mixture();
  job.train.recompute = Recompute::selective;
  options(job).recompute_modules = modules;
  return kept(job);
}

TEST(MegatronMemory, KeepsTokensOfExpertsAndBothSidesOfTheirActivations) {
  EXPECT_EQ(kept(mixture()), k_tokens * (k_attention + k_mlp + k_expert_inputs + k_experts));
}

TEST(MegatronMemory, KeepsNothingOfWhatIsComputedAgain) {
  const std::int64_t all = kept(mixture());
  EXPECT_EQ(kept_with({"core_attn"}), all) << "no scores are kept";
  EXPECT_EQ(kept_with({"layernorm"}), all - k_tokens * 512);
  EXPECT_EQ(kept_with({"mlp"}), all - k_tokens * k_mlp);
  EXPECT_EQ(kept_with({"moe_act"}), all - k_tokens * k_experts / 3);
  EXPECT_EQ(kept_with({"moe"}), all - k_tokens * (k_expert_inputs + k_experts));
  EXPECT_EQ(kept_with({"mla_up_proj"}), all) << "without latent attention";
}

/// But for the tokens of experts, which come to both ranks of an expert's tensor group.
TEST(MegatronMemory, SplitsWhatIsKeptUnderSequenceParallelism) {
  Job job = mixture();
  job.layout.tp = 2;
  job.layout.sequence_parallel = true;
  options(job).expert_tp = 1;
  EXPECT_EQ(kept(job), kept(mixture()) / 2);
  options(job).expert_tp = 2;
  EXPECT_EQ(kept(job), (kept(mixture()) + k_tokens * k_expert_inputs) / 2);
}

TEST(MegatronMemory, TakesTheLayersOfExpertsAndTheirSharedOnesAsTheyAre) {
  Job job = mixture();
  options(job).moe_layers = {true, false};
  EXPECT_EQ(kept(job), kept(mixture()));
  options(job).shared_expert_hidden = 48;
  EXPECT_EQ(kept(job), kept(mixture()) + k_tokens * 2 * 3 * 48);
}

/// Latents of 24 + 16 + 8 elements, queries and keys of 4 x (16 + 8), values of 4 x 16, in two layers.
TEST(MegatronMemory, LatentAttentionKeepsItsLatents) {
  Job job = mixture();
  job.model.latent = {.query_rank = 24, .kv_rank = 16, .nope_dim = 16, .rope_dim = 8, .value_dim = 16};
  const std::int64_t upper = 2 * 2 * (2 * 4 * 24 + 64);
  EXPECT_EQ(kept(job) - kept(mixture()), k_tokens * (2 * 2 * 48 + upper - 2 * 3 * 128));
  const std::int64_t all = kept(job);
  job.train.recompute = Recompute::selective;
  options(job).recompute_modules = {"mla_up_proj"};
  EXPECT_EQ(kept(job), all - k_tokens * upper);
}

/// 18 bytes a parameter are 6 + 12 / d with the distributed optimizer, gradients in fp32
/// (theoretical_memory_usage.py:293).
TEST(MegatronMemory, SharesTheOptimizerOverDataRanks) {
  Job job = mixture();
  job.model.experts = job.model.top_k = job.model.moe_hidden = job.model.dense_layers = 0;
  options(job).moe_layers = {};
  job.layout.dp = 4;
  const MemoryEstimate whole = memory_per_rank(validated(job).value());
  EXPECT_EQ(whole.gradients.value, 2 * whole.parameters.value);
  EXPECT_EQ(whole.optimizer.value, 6 * whole.parameters.value);
  job.train.zero_stage = 1;
  const MemoryEstimate shared = memory_per_rank(validated(job).value());
  EXPECT_EQ(shared.gradients, whole.gradients);
  EXPECT_EQ(shared.optimizer.value, whole.optimizer.value / 4);
}

}  // namespace
}  // namespace commlens::megatron
