#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

using pytorch::options;
using pytorch::Unit;

// Four layers of width 64: a block has 12 x 64^2 + 13 x 64 = 49,984 parameters in dimensions that 4 ranks
// divide.
constexpr std::int64_t k_block = 49'984;

Job fsdp_job() {
  Job job = small_job("torch-fsdp", 4, 64);
  options(job).fsdp.is_used = true;
  return job;
}

AdviceOptions with_memory(std::int64_t bytes, std::int64_t ranks_per_node = 0) {
  AdviceOptions options;
  options.memory = Bytes{bytes};
  options.ranks_per_node = ranks_per_node;
  return options;
}
constexpr std::int64_t k_much = std::int64_t{1} << 40;

std::int64_t memory_of(const Job& job) { return memory_per_rank(checked(job)).total().value; }

TEST(Choices, KeepParametersGatheredIfTheyFit) {
  const Advice advice = advised(fsdp_job(), with_memory(k_much));
  const Recommendation* const made = find(advice, "reshard_after_forward");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting, "reshard_after_forward=False of fully_shard");
  // The gathers of the blocks before their backward passes: three quarters of each from other ranks.
  EXPECT_EQ(made->wire_saved().value, 4 * k_block * 4 * 3 / 4);
  EXPECT_EQ(made->calls_saved(), 4);
  EXPECT_GT(made->memory_added().value, 0);
}

TEST(Choices, SayWhatIsMissingWhereMemoryIsNotKnown) {
  const Advice advice = advised(fsdp_job());
  EXPECT_EQ(find(advice, "reshard_after_forward"), nullptr);
  EXPECT_TRUE(says(advice.not_judged, "keep parameters gathered for the backward pass: a rank makes"));
  EXPECT_TRUE(says(advice.not_judged, "whether that fits is not known, add --gpu-memory"));
}

/// Nodes of two: with two replicas only the sums of half the gradients leave a node. Whole parameters on
/// every rank would save more, and do not fit.
TEST(Choices, ReplicateShardsOverNodes) {
  Job hybrid = fsdp_job();
  options(hybrid).data_shard = 2;
  const Advice advice = advised(fsdp_job(), with_memory(memory_of(hybrid), 2));
  const Recommendation* const made = find(advice, "data_shard");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->title, "Shard over 2 ranks, with 2 replicas (HSDP)");
  EXPECT_GT(made->inter_node_saved().value, 0);
  EXPECT_TRUE(made->reason.find("between nodes") != std::string::npos) << made->reason;
}

TEST(Choices, ShardWhatDoesNotFit) {
  Job whole = small_job("torch-ddp", 4, 64);
  options(whole).ddp.is_used = true;
  const Advice advice = advised(whole, with_memory(memory_of(fsdp_job())));
  const Recommendation* const made = find(advice, "data_shard");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->required);
  EXPECT_EQ(made->title, "Shard over all 4 data ranks (FSDP)");
}

/// The whole model in one group is gathered once, and does not fit.
TEST(Choices, GatherBlocksOnTheirOwnToFit) {
  Job job = fsdp_job();
  options(job).fsdp.units = {Unit::root};
  const Advice advice = advised(job, with_memory(memory_of(fsdp_job())));
  const Recommendation* const made = find(advice, "units");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->required);
  EXPECT_LT(made->memory_added().value, 0);
  EXPECT_EQ(made->wire_saved().value, -4 * k_block * 4 * 3 / 4) << "blocks are gathered again";
}

/// Four micro-batches, one reduction.
TEST(Choices, ReduceOnceInAStep) {
  Job job = small_job("torch-ddp", 4, 64);
  job.train.micro_batches = 4;
  options(job).ddp.is_used = true;
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "accumulation");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->after.per_rank.wire.value * 4, made->before.per_rank.wire.value);
  EXPECT_EQ(made->memory_added().value, 0);
}

TEST(Choices, ComputeTheLossOfTheParts) {
  Job job = small_job("torch-tp", 4, 64);
  job.model.family = Family::llama;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.positions = Positions::rotary;
  job.layout.dp = 1;
  job.layout.tp = 4;
  const Advice advice = advised(job);
  const Recommendation* const loss = find(advice, "loss_parallel");
  ASSERT_NE(loss, nullptr);
  // 32 tokens: a gather of 100 logits against three sums of one number, in fp32.
  EXPECT_EQ(loss->wire_saved().value, 32 * 100 * 4 * 3 / 4 - 3 * 32 * 4 * 2 * 3 / 4);
  EXPECT_NE(find(advice, "sequence_parallel"), nullptr);
}

/// 1F1B of 2 stages and 4 micro-batches waits 1/5 of a step, with two stages a rank 1/9.
TEST(Choices, InterleaveStages) {
  Job job = small_job("torch-pipeline", 4, 64);
  job.layout.dp = 1;
  job.layout.pp = 2;
  job.train.micro_batches = 4;
  const Advice advice = advised(job, with_memory(k_much));
  const Recommendation* const made = find(advice, "schedule");
  ASSERT_NE(made, nullptr);
  EXPECT_DOUBLE_EQ(made->before.bubble, 0.2);
  EXPECT_DOUBLE_EQ(made->after.bubble, 1.0 / 9);
  EXPECT_EQ(made->setting, "ScheduleInterleaved1F1B with 2 stages on each rank");
}

TEST(Choices, AreNoneOfOtherFrameworks) {
  const Advice advice = advised(small_job("deepspeed", 4, 64), with_memory(k_much));
  for (const char* id : {"data_shard", "reshard_after_forward", "units", "loss_parallel", "schedule"}) {
    EXPECT_EQ(find(advice, id), nullptr) << id;
  }
}

/// With chunks torchtitan gathers norm and head for the norm, for the chunks and for the norm's backward
/// pass, without them once: two times three quarters of 6,464 elements of two bytes.
TEST(Choices, ComputeTheLossAtOnceIfItFits) {
  const Advice advice = advised(llama_job("torchtitan"), with_memory(k_much));
  const Recommendation* const made = find(advice, "loss_chunks");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->title, "Compute the loss of all tokens at once");
  EXPECT_EQ(made->wire_saved().value, 2 * 6464 * 2 * 3 / 4);
  EXPECT_GT(made->memory_added().value, 0);
}

/// Two replicas on two nodes of two: half the gradients are summed between them instead of three quarters of
/// all that is gathered and scattered.
TEST(Choices, ReplicateShardsByOptionsOfTorchtitan) {
  const Advice advice = advised(llama_job("torchtitan"), with_memory(k_much, 2));
  const Recommendation* const made = find(advice, "data_shard");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->setting.find("--parallelism.data_parallel_replicate_degree") != std::string::npos);
  EXPECT_GT(made->inter_node_saved().value, 0);
  const Recommendation* const open = find(advice, "reshard_after_forward");
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->setting, "--parallelism.fsdp_reshard_after_forward never");
  // Four blocks of 3 x 64 x 64 + 64 x 64 + 3 x 64 x 128 + 128 elements and the embedding are gathered once
  // instead of twice.
  EXPECT_EQ(open->wire_saved().value, (4 * 41'088 + 6400) * 2 * 3 / 4);
}

/// All experts on every rank need no messages of tokens, but are gathered whole.
TEST(Choices, WeighRanksOfExperts) {
  Job job = llama_job("torchtitan");
  job.model.experts = 8;
  job.model.top_k = 2;
  job.model.moe_hidden = 256;
  job.layout.ep = 1;
  const Advice advice = advised(job, with_memory(k_much));
  const Recommendation* const made = find(advice, "expert_ranks");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->title, "Divide the experts over 4 ranks");
  EXPECT_EQ(made->setting, "--parallelism.expert_parallel_degree 4");
  EXPECT_LT(made->memory_added().value, 0);
}

/// Two stages a rank of six layers, embedding and head counting for one each: bubble 1/3 with one, 1/5 with
/// two.
TEST(Choices, InterleaveStagesByOptionsOfTorchtitan) {
  Job job = llama_job("torchtitan");
  job.model.layers = 6;
  job.layout.pp = 2;
  job.layout.dp = 2;
  job.train.micro_batches = 2;
  const Advice advice = advised(job, with_memory(k_much));
  const Recommendation* const made = find(advice, "schedule");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->setting.starts_with("--parallelism.pipeline_parallel_schedule Interleaved1F1B"));
  EXPECT_DOUBLE_EQ(made->before.bubble, 1.0 / 3);
  EXPECT_LE(made->after.bubble, 1.0 / 5);
}

}  // namespace
}  // namespace commlens
