#include "commlens/frameworks/memory.hpp"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

struct MemoryRow {
  const char* name;
  std::int64_t ranks;
  std::array<std::int64_t, 4> states;  // ZeRO 0 to 3
  std::int64_t checkpoints;
};

TEST(Memory, EqualsTheExpectedValuesOfTheOutOfMemoryCheck) {  // facts/expected.json oom_check
  const std::vector<MemoryRow> rows = {
      {"19M", 8, {1'126'825'984, 387'346'432, 264'099'840, 140'853'248}, 50'331'648},
      {"19M", 16, {1'126'825'984, 334'526'464, 202'476'544, 70'426'624}, 50'331'648},
      {"125M", 8, {2'597'167'104, 892'776'192, 608'711'040, 324'645'888}, 150'994'944},
      {"125M", 16, {2'597'167'104, 771'033'984, 466'678'464, 162'322'944}, 150'994'944},
      {"1.3B", 8, {22'634'364'928, 7'780'562'944, 5'304'929'280, 2'829'295'616}, 805'306'368},
      {"1.3B", 16, {22'634'364'928, 6'719'577'088, 4'067'112'448, 1'414'647'808}, 805'306'368},
      {"13B", 8, {209'611'161'600, 72'053'836'800, 49'127'616'000, 26'201'395'200}, 3'355'443'200},
      {"13B", 16, {209'611'161'600, 62'228'313'600, 37'664'505'600, 13'100'697'600}, 3'355'443'200}};
  for (const MemoryRow& row : rows) {
    for (int stage = 0; stage <= 3; ++stage) {
      Job job = preset(row.name).value();
      job.layout.dp = job.layout.ranks = row.ranks;
      job.train.zero_stage = stage;
      const MemoryEstimate memory = memory_per_rank(job);
      const Bytes states = memory.parameters + memory.gradients + memory.optimizer;
      EXPECT_EQ(states.value, row.states.at(static_cast<std::size_t>(stage)))
          << row.name << " ZeRO-" << stage;
      EXPECT_EQ(memory.activations.value, row.checkpoints) << row.name;
    }
  }
}

/// sbh = 16,384; 5as/h = 10; four layers in fp16.
Job small_job() {
  Job job;
  job.model.layers = 4;
  job.model.hidden = 128;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 32;
  job.model.ffn_hidden = 512;
  job.model.sequence = job.model.max_positions = 64;
  job.model.vocab = 512;
  job.layout.dp = job.layout.ranks = 1;
  job.train.micro_batch = 2;
  job.train.dtype = DType::fp16;
  return job;
}

TEST(Memory, ActivationsFollowKorthikanti) {  // arXiv 2205.05198, eqs 1, 2, 4 and table 2, times 4 layers
  Job job = small_job();
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * (34 + 10) * 4);
  job.train.recompute = Recompute::selective;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * 34 * 4);
  job.layout.tp = 2;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * (10 + 12) * 4);
  job.train.recompute = Recompute::none;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * (10 + 12 + 5) * 4);
  job.layout.sequence_parallel = true;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * 22 * 4);
}

TEST(Memory, PartitionedCheckpointsAreShared) {
  Job job = small_job();
  job.layout.tp = 2;
  job.train.recompute = Recompute::full;
  EXPECT_EQ(memory_per_rank(job).activations.value, 2 * 16'384 * 4);
  job.train.partition_activations = true;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * 4);
}

TEST(Memory, SchedulesKeepDifferentNumbersOfMicroBatches) {
  Job job = small_job();
  job.train.recompute = Recompute::full;
  job.layout.pp = 2;
  job.train.micro_batches = 8;
  EXPECT_EQ(memory_per_rank(job).activations.value, 2 * 16'384 * 2 * 2);  // 2 layers of 2 micro-batches
  job.train.schedule = Schedule::gpipe;
  EXPECT_EQ(memory_per_rank(job).activations.value, 2 * 16'384 * 2 * 8);
  job.train.schedule = Schedule::interleaved;
  job.layout.virtual_stages = 2;
  EXPECT_EQ(memory_per_rank(job).activations.value, 2 * 16'384 * 5);  // L (1 + 1/4)
}

TEST(Memory, ActivationsAreThoseOfTheStageWithMostLayers) {
  Job job = small_job();  // 4 layers on 3 stages: 2, 1 and 1
  job.train.recompute = Recompute::full;
  job.layout.pp = 3;
  job.train.micro_batches = 8;
  EXPECT_EQ(memory_of_stage(job, 0).activations.value, 2 * 16'384 * 2 * 3);
  EXPECT_EQ(memory_of_stage(job, 2).activations.value, 2 * 16'384 * 1 * 1);
  job.train.schedule = Schedule::gpipe;
  EXPECT_EQ(memory_of_stage(job, 0).activations.value, 2 * 16'384 * 2 * 8);
  Job large = preset("13B").value();  // 40 layers on 7 stages: at most 6, of 4 x 2048 x 5120 elements of fp16
  large.layout.dp = 1;
  large.layout.ranks = large.layout.pp = 7;
  EXPECT_EQ(memory_per_rank(large).activations.value, 6 * 80 * 1024 * 1024);
}

TEST(Memory, FusedAttentionKeepsNoScores) {
  Job job = small_job();
  job.train.attention = Attention::flash;
  EXPECT_EQ(memory_per_rank(job).activations.value, 16'384 * 34 * 4);
}

/// 128 tokens of bf16: 2 (4 x 128 + 2 x 512) + 4 x 2 x 128 bytes each; eager 2 x 4 x 64 of scores and a mask
/// of 2 x 64 x 64, fused 4 x 4 of their sums. ALiBi's masks: one a head, eager of both sequences.
TEST(Memory, OfOurTrainerIsOfTheAttentionItHas) {
  Job job = small_job();
  job.framework = "commlens";
  job.train.dtype = DType::bf16;
  EXPECT_EQ(attention_of(job), Attention::eager);
  EXPECT_EQ(memory_per_rank(job).activations.value, 4 * (128 * (3072 + 1024 + 512) + 8192));
  job.model.positions = Positions::alibi;
  EXPECT_EQ(memory_per_rank(job).activations.value, 4 * (128 * (3072 + 1024 + 512) + 8 * 8192));
  job.train.attention = Attention::flash;
  EXPECT_EQ(memory_per_rank(job).activations.value, 4 * (128 * (3072 + 1024 + 16) + 4 * 8192));
  job.model.positions = Positions::rotary;
  EXPECT_EQ(memory_per_rank(job).activations.value, 4 * 128 * (3072 + 1024 + 16));
  job.train.recompute = Recompute::selective;  // nothing is left to do
  EXPECT_EQ(memory_per_rank(job).activations.value, 4 * 128 * (3072 + 1024 + 16));
}

/// Llama-2-13B with ZeRO-3: per token and layer 2 (2 x 5120 + 2 x 5120 + 3 x 13824) + 10 x 5120 = 175,104 B.
TEST(Memory, OfLlamaTypeModelsIsWithoutScores) {
  Job job;
  job.framework = "deepspeed";
  job.model.family = Family::llama;
  job.model.layers = 40;
  job.model.hidden = 5120;
  job.model.heads = job.model.kv_heads = 40;
  job.model.head_dim = 128;
  job.model.ffn_hidden = 13'824;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.sequence = job.model.max_positions = 4096;
  job.model.vocab = 32'000;
  job.layout.dp = job.layout.ranks = 8;
  job.train.zero_stage = 3;
  job.train.dtype = DType::bf16;
  const MemoryEstimate memory = memory_per_rank(job);
  EXPECT_EQ(memory.activations.value, 175'104LL * 4096 * 40);  // 26.7 GiB
  EXPECT_EQ(memory.logits.value, 4096LL * (2 * 5120 + 10 * 32'000));
  // 13,015,864,320 parameters. Gathered: half of the reuse distance of 1e9, the head of 163,840,000 and the
  // prefetch of 5e7 elements; and a reduction bucket of 5e8; of 2 bytes each.
  EXPECT_EQ(memory.parameters.value, 13'015'864'320 * 2 / 8);
  EXPECT_EQ(memory.buffers.value, 2 * (500'000'000LL + 163'840'000 + 50'000'000 + 500'000'000));
  job.train.attention = Attention::eager;  // 5 bytes a score, of 40 heads and 4096 positions
  EXPECT_EQ(memory_per_rank(job).activations.value, (175'104LL + 5 * 40 * 4096) * 4096 * 40);
}

TEST(Memory, PartsAddUp) {
  Job job = small_job();
  job.framework = "torch-ddp";
  job.framework_version = "1.13";
  job.layout.dp = job.layout.ranks = 2;
  const MemoryEstimate memory = memory_per_rank(job);
  EXPECT_EQ(memory.buffers.value, 2 * 924'416);  // buckets: the gradients once more
  EXPECT_EQ(memory.logits.value, 128 * (2 * 128 + 10 * 512));
  EXPECT_EQ(memory.total().value, 16 * 924'416 + memory.activations.value + memory.logits.value +
                                      memory.buffers.value + memory.working.value);
}

TEST(Memory, RecomputedLayersAreThereOneAtATime) {
  Job job = small_job();
  job.train.recompute = Recompute::full;
  job.model.vocab = 8;  // so that the head is not the fullest moment
  EXPECT_EQ(memory_per_rank(job).working.value, 16'384 * (34 + 10));
  job.framework = "neox";
  neox::options(job).checkpoint_num_layers = 3;
  EXPECT_EQ(memory_per_rank(job).working.value, 3 * 16'384 * (34 + 10));
}

TEST(Memory, Fp32TrainingNeedsSixteenBytesToo) {
  Job job = small_job();
  job.train.dtype = DType::fp32;
  const MemoryEstimate memory = memory_per_rank(job);
  // 2 x 512 x 128 + 4 (12 x 128^2 + 13 x 128) + 256 = 924,416 parameters
  EXPECT_EQ(memory.parameters.value, 4 * 924'416);
  EXPECT_EQ(memory.gradients.value, 4 * 924'416);
  EXPECT_EQ(memory.optimizer.value, 8 * 924'416);
}

TEST(Memory, ExpertsAreSharedOverTheirOwnRanks) {
  Job job = small_job();
  job.layout.dp = job.layout.ranks = 4;
  job.layout.ep = 2;
  job.model.experts = 4;
  job.model.top_k = 1;
  // dense: 924,416 without the MLPs (4 x 131,712) and with 4 routers of 512; experts: 4 x 4 x 131,712 over ep
  // 2
  const std::int64_t dense = 924'416 - 526'848 + 2'048;
  EXPECT_EQ(memory_per_rank(job).parameters.value, 2 * (dense + 1'053'696));
  job.train.zero_stage = 1;
  EXPECT_EQ(memory_per_rank(job).optimizer.value, 12 * dense / 4 + 12 * 1'053'696 / 2);
}

}  // namespace
}  // namespace commlens
