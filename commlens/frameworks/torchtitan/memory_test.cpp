#include "commlens/frameworks/memory.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"

namespace commlens::torchtitan {
namespace {

// The model S: a block has 128 x (128 + 2 x 64) of queries, keys and values in one, 16,384 of the output, 3 x
// 44,032 and two norms of 128, 181,504 in all; the rest 2 x 128,000 + 128. 128 tokens a micro-batch.
constexpr std::int64_t k_block = 181'504;
constexpr std::int64_t k_table = 128'000;
constexpr std::int64_t k_all = 4 * k_block + 2 * k_table + 128;
constexpr std::int64_t k_tokens = 128;

/// What autograd saves of a block, per token: inputs and results of both norms in bf16 with a sum in fp32;
/// queries, keys, values and the result of attention, a sum for each of 8 heads and a row of 8 complex
/// numbers; 4 x 344 of the MLP. Live tensors of one block more were counted in torchtitan 0.3.0 (on CPUs,
/// whose norms are not one kernel; here as on GPUs).
constexpr std::int64_t k_saved = 4 * 256 + 2 * 4 + 2 * (128 + 64 + 64 + 128) + 8 * 4 + 64 + 2 * 4 * 344;
/// SelectiveAC: the input, the joint projection, the result of attention, w1 and w2.
constexpr std::int64_t k_selected = 256 + 2 * 256 + 2 * 128 + 8 * 4 + 2 * 344 + 2 * 128;

Job small_job() {
  Job job;
  job.framework = k_name;
  job.model.family = Family::llama;
  job.model.layers = 4;
  job.model.hidden = 128;
  job.model.heads = 8;
  job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn_hidden = 344;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.sequence = job.model.max_positions = 64;
  job.model.vocab = job.model.raw_vocab = 1000;
  job.layout.ranks = 4;
  job.train.micro_batch = 2;
  job.train.dtype = DType::fp32;
  return job;
}

MemoryEstimate of(const Job& job, std::int64_t stage = 0) {
  const Result<Job> valid = validated(job);
  EXPECT_TRUE(valid.has_value()) << (valid ? "" : valid.error().message);
  return valid ? memory_of_stage(*valid, stage) : MemoryEstimate{};
}

MemoryEstimate of_preset(std::string_view name, const Overrides& flags) {
  const Result<Job> job =
      with_overrides(with_framework(preset(name).value(), k_name), flags).and_then(validated);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return job ? memory_per_rank(*job) : MemoryEstimate{};
}

/// The fullest moment is the head's: its weight gathered in bf16, the sum of its gradients in fp32 and that
/// of the chunk in bf16; logits of an eighth of the tokens, 14 bytes each as the operators make them, with
/// inputs of norm and head, their gradient in fp32, copies of the chunks, and the chunk's gradient.
TEST(TitanMemory, OfChunkedLossIsOneChunk) {
  const MemoryEstimate memory = of(small_job());
  EXPECT_EQ(memory.parameters.value, k_all);
  EXPECT_EQ(memory.gradients.value, k_all);
  EXPECT_EQ(memory.optimizer.value, 2 * k_all);
  EXPECT_EQ(memory.activations.value, 4 * k_tokens * k_saved);
  EXPECT_EQ(memory.logits.value, k_tokens * (2 * 256 + 4 * 128 + 256) + k_tokens / 8 * (14 * 1000 + 256));
  EXPECT_EQ(memory.buffers.value, 2 * (k_table + 128) + 4 * k_table + 2 * k_table);
}

/// The last unit's reduction follows its backward pass: norm and head are gathered, their gradients whole.
TEST(TitanMemory, OfTheWholeLossIsAllLogits) {
  Job job = small_job();
  options(job).loss_chunks = 0;
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.logits.value, k_tokens * (2 * 256 + 14 * 1000 + 256));
  EXPECT_EQ(memory.buffers.value, 2 * k_block + 2 * 2 * (k_table + 128));
}

TEST(TitanMemory, OfActivationsIsWhatRecomputationKeeps) {
  Job job = small_job();
  job.model.vocab = job.model.raw_vocab = 4000;  // so that the head is the fullest moment
  set_recompute(job, Recompute::selective);
  EXPECT_EQ(of(job).activations.value, 4 * k_tokens * k_selected);
  // Queries, keys and values apart: the second and the fourth of seven are not saved.
  options(job).fuses_qkv = false;
  EXPECT_EQ(of(job).activations.value,
            4 * k_tokens * (256 + 2 * (128 + 64) + 2 * 128 + 8 * 4 + 2 * 344 + 2 * 128));
  set_recompute(job, Recompute::full);
  EXPECT_EQ(of(job).activations.value, 4 * k_tokens * 256);
}

/// A small head, so that the last blocks are the fullest moment: one has been done, one is at work with the
/// one before it gathered, the message of the last in fp32.
TEST(TitanMemory, OfRecomputationIsOneBlockAtWork) {
  Job job = small_job();
  job.model.vocab = job.model.raw_vocab = 8;
  set_recompute(job, Recompute::full);
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.activations.value, 3 * k_tokens * 256);
  EXPECT_EQ(memory.working.value, k_tokens * (k_saved - 256));
  // Norm and head were resharded after the chunks; two blocks are gathered, one has gradients.
  EXPECT_EQ(memory.buffers.value, 2 * (2 * k_block + k_block) + 4 * k_block);
}

/// 8,030,261,248 parameters, all divisible by 64.
TEST(TitanMemory, OfLlama8BOn64RanksIsASixtyFourth) {
  const MemoryEstimate memory = of_preset("llama3-8b", {.ranks = 64});
  EXPECT_EQ(memory.states().value, 16 * 8'030'261'248 / 64);
  // 4096 inputs, 6144 of the projection, 4096 of attention with 32 sums, 14336 and 4096 of the MLP.
  constexpr std::int64_t selected = 2 * (4096 + 6144 + 4096 + 14'336 + 4096) + 4 * 32;
  EXPECT_EQ(memory.activations.value, 32LL * 8192 * selected);
  EXPECT_EQ(memory.logits.value, 8192LL * (4 * 4096 + 4 * 4096) + 1024LL * (14 * 128'256 + 2 * 4096));
  constexpr std::int64_t head = 128'256LL * 4096;
  EXPECT_EQ(memory.buffers.value, 2 * (head + 4096) + 6 * head);
}

/// Replicas hold the same shards: 8 of 8 ranks hold an eighth.
TEST(TitanMemory, OfReplicasIsShardedOverTheOthers) {
  Job job = preset("llama3-8b").value();
  job = with_framework(std::move(job), k_name);
  job.layout.ranks = 64;
  options(job).replicate = 8;
  EXPECT_EQ(of(job).states().value, 16 * 8'030'261'248 / 8);
}

/// A block of one tensor rank of 8: an eighth of queries, keys, values and output (8192 x (8192 + 2048) +
/// 8192 x 8192), 3 x 8192 x 28672, norms whole; tables 128,256 x 8192. Shards of 32 ranks divide all.
TEST(TitanMemory, OfLlama70BWithTensorRanksIsSplit) {
  const MemoryEstimate memory = of_preset("llama3-70b", {.ranks = 256});
  constexpr std::int64_t h = 8192;
  constexpr std::int64_t block = (h * (h + 2048) + h * h + 3 * h * 28'672) / 8 + 2 * h;
  constexpr std::int64_t table = 128'256 * h / 8;
  EXPECT_EQ(memory.states().value, 16 * (80 * block + 2 * table + h) / 32);
  // Full recomputation: the input of each block, split along the sequence. 8 sequences of 8192.
  constexpr std::int64_t tokens = 8 * 8192;
  EXPECT_EQ(memory.activations.value, 80 * tokens * 2 * h / 8);
  // Inputs of norm (split) and head, the gradient in fp32 and copies of the chunks, which come from several
  // sequences; the logits of an eighth of the tokens and of the vocabulary, 18 bytes each.
  EXPECT_EQ(memory.logits.value,
            tokens * (2 * h / 8 + 2 * h + 4 * h + 2 * h) + tokens / 8 * (18 * 16'032 + 2 * h));
  EXPECT_EQ(memory.buffers.value, 2 * (table + h) + 6 * table);
}

/// A model of 8 experts of 96, 2 chosen; 2 expert ranks of 4 that shard by FSDP. An expert has 3 x 128 x 96 =
/// 36,864; attention, router and norms of a layer 49,152 + 1,024 + 256.
Job expert_job() {
  Job job = small_job();
  job.model.experts = 8;
  job.model.top_k = 2;
  job.model.moe_hidden = 96;
  job.layout.ep = 2;
  return job;
}

TEST(TitanMemory, OfExpertsIsShardedOverTheirOwnRanks) {
  const MemoryEstimate memory = of(expert_job());
  constexpr std::int64_t dense = 4 * (49'152 + 1024 + 256) + 2 * k_table + 128;
  constexpr std::int64_t experts = 4 * 8 * 36'864;
  EXPECT_EQ(memory.parameters.value, 4 * (dense / 4 + experts / 4));
  Job replicated = expert_job();
  options(replicated).replicate = 2;
  EXPECT_EQ(of(replicated).parameters.value, 4 * (dense / 2 + experts / 2));
}

/// Of each copy of a token autograd saves the input of the first products, four tensors of 96, the result in
/// fp32 and its place; of each token the gate's input in fp32, scores of 8 and of the 2 chosen, their places,
/// and 20 bytes of the order of each. The gate's weight is copied to fp32.
TEST(TitanMemory, OfExpertsIsCopiesOfTokens) {
  Job job = expert_job();
  job.model.vocab = job.model.raw_vocab = 8;
  const MemoryEstimate memory = of(job);
  constexpr std::int64_t copy = 2 * 128 + 4 * 2 * 96 + 4 * 128 + 8;
  constexpr std::int64_t router = 4 * (128 + 8 + 2) + 8 * 2 + 20 * 2;
  constexpr std::int64_t layer = k_tokens * (k_saved - 2 * 4 * 344 + 2 * copy + router) + 4 * 8 * 128;
  EXPECT_EQ(memory.activations.value, 3 * layer);  // the last one is done
  // Two units gathered, gradients of one, the message of another; tokens sent and received.
  constexpr std::int64_t unit = 49'152 + 1024 + 256 + 4 * 36'864;
  EXPECT_EQ(memory.buffers.value, (3 * 2 + 4) * unit + 2 * k_tokens * 2 * 2 * 128);
}

/// Stages keep all units gathered and whole sums of gradients in fp32; rank 0 has two micro-batches in
/// flight, with what it sent.
TEST(TitanMemory, OfPipelinesIsOfWhatIsInFlight) {
  Job job = small_job();
  job.layout.pp = 2;
  job.train.micro_batches = 4;
  set_recompute(job, Recompute::full);
  const MemoryEstimate memory = of(job, 0);
  // (4 layers, embedding and head of one each) / 2: the embedding and two blocks.
  constexpr std::int64_t all = 2 * k_block + k_table;
  EXPECT_EQ(memory.parameters.value, 4 * all / 2);
  EXPECT_EQ(memory.gradients.value, 4 * all / 2 + 4 * all);
  EXPECT_EQ(memory.buffers.value, 2 * all);
  EXPECT_EQ(memory.activations.value, 2 * k_tokens * (2 * 256 + 256));
  // The last stage reduces the head in every micro-batch: of it there is no sum beside the chunks'.
  const MemoryEstimate last = of(job, 1);
  EXPECT_EQ(last.gradients.value, 4 * (all + 128) / 2 + 4 * (2 * k_block + 128));
  EXPECT_EQ(last.buffers.value, 2 * (all + 128) + 6 * k_table);
}

TEST(TitanMemory, OfOffloadedStatesIsWhatIsInUse) {
  Job job = small_job();
  const Bytes in_use = of(job).buffers;
  options(job).is_offloaded = true;
  EXPECT_EQ(of(job).states().value, 0);
  EXPECT_EQ(of(job).buffers, in_use);
}

/// What does not reshard after the forward pass is gathered when the loss begins.
TEST(TitanMemory, OfOpenUnitsIsWhole) {
  Job job = small_job();
  options(job).reshard_after_forward = Reshard::never;
  EXPECT_EQ(of(job).buffers.value, 2 * k_all + 6 * k_table);
}

/// One weight that is table and head has one shard; its gradients come from both.
TEST(TitanMemory, OfTiedEmbeddingsIsOneState) {
  Job job = small_job();
  job.model.tied_embeddings = true;
  EXPECT_EQ(of(job).parameters.value, k_all - k_table);
}

/// Peaks that the authors of torchtitan published (benchmarks/llama3_h100_202412_torchtitan.md, of torchtitan
/// at 9dec370 with torch.compile, whose norms are one kernel), without a chunked loss, queries, keys and
/// values apart. They are of the allocator and so count fragments.
TEST(TitanMemory, IsNearWhatWasMeasured) {
  struct Measured {
    std::string_view model;
    Overrides flags;
    std::int64_t sequence = 8192;
    Recompute recompute = Recompute::full;
    double gib = 0;
  };
  const Measured all[] = {
      {"llama3-8b", {.ranks = 8, .micro_batch = 2}, 8192, Recompute::selective, 77.0},
      {"llama3-8b", {.ranks = 128, .micro_batch = 2}, 8192, Recompute::selective, 62.0},
      {"llama3-8b", {.ranks = 8}, 32'768, Recompute::full, 83.9},
      {"llama3-8b", {.ranks = 8, .cp = 4}, 131'072, Recompute::full, 84.0},
      {"llama3-70b", {.ranks = 256, .micro_batch = 16}, 8192, Recompute::full, 67.6},
  };
  for (const Measured& one : all) {
    Job job = with_overrides(with_framework(preset(one.model).value(), k_name), one.flags).value();
    job.model.sequence = job.model.max_positions = one.sequence;
    options(job).loss_chunks = 0;
    options(job).fuses_qkv = false;
    set_recompute(job, one.recompute);
    const double predicted = static_cast<double>(of(job).total().value) / (1 << 30);
    EXPECT_LT(predicted / one.gib, 1.01) << one.model << " of " << one.gib << " GiB";
    EXPECT_GT(predicted / one.gib, 0.95) << one.model << " of " << one.gib << " GiB";
  }
}

}  // namespace
}  // namespace commlens::torchtitan
