#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"

namespace commlens {
namespace {

constexpr Bytes k_plenty{std::int64_t{1} << 40};

/// Our trainer, 2 layers of width 64 on 2 tensor ranks; activations A of 1 x 32 x 64 fp32 = 8,192 bytes.
Job tensor_parallel() {
  Job job = small_job("commlens", 2, 64);
  job.layout.tp = 2;
  job.layout.dp = 1;
  return job;
}

// A block's recomputed forward pass repeats 2 all_reduces of A (docs/training.md, Tensor parallelism).
TEST(Recompute, IsOmittedWhereMemoryAllows) {
  Job job = tensor_parallel();
  set_recompute(job, Recompute::full);
  const Advice advice = advised(job, {.memory = k_plenty});
  const Recommendation* const made = find(advice, "recompute");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->calls_saved(), 2 * 2);
  EXPECT_EQ(made->wire_saved(), Bytes{2 * 2 * 8192});  // 2 m (n - 1) / n = m for n = 2
  EXPECT_GT(made->memory_added(), Bytes{0});
}

TEST(Recompute, StaysWhereMemoryDoesNotAllowLess) {
  Job job = tensor_parallel();
  set_recompute(job, Recompute::full);
  const Bytes memory = advised(job).cost.memory;
  const Advice advice = advised(job, {.memory = memory});
  EXPECT_EQ(find(advice, "recompute"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "recomputing less"));
  EXPECT_TRUE(says(advised(job).not_judged, "recomputing or partitioning less"));
}

/// torchtitan on 2 tensor ranks, 4 layers of width 64, selective recomputation: 2,048 bytes of each 4,096 (32
/// tokens in bf16) that the block gathers and scatters twice each.
TEST(Recompute, RepeatsCallsWhereItIsSelectiveToo) {
  Job job = llama_job("torchtitan");
  job.layout.tp = 2;
  job.layout.dp = 2;
  set_recompute(job, Recompute::selective);
  const Advice advice = advised(job, {.memory = k_plenty});
  const Recommendation* const made = find(advice, "recompute");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting, "activation-checkpoint:none");
  EXPECT_EQ(made->calls_saved(), 4 * 4);
  EXPECT_EQ(made->wire_saved(), Bytes{4 * 4 * 2048});
  EXPECT_GT(made->memory_added(), Bytes{0});
  EXPECT_TRUE(says(advised(job).not_judged, "add --gpu-memory. Without recomputation a rank makes"));
  EXPECT_TRUE(says(advised(job, {.memory = made->after.memory - Bytes{1}}).not_advised,
                   "recomputing less: without any a rank makes"));
}

TEST(Recompute, OfAPartIsTheFirstRemedyForMemory) {
  Job job = llama_job("torchtitan");
  const Bytes memory = advised(job).cost.memory;
  const Advice advice = advised(job, {.memory = memory - Bytes{1}});
  const Recommendation* const made = find(advice, "recompute");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->required);
  EXPECT_EQ(made->setting, "activation-checkpoint:selective");
}

// Partitioned inputs are gathered again, one all_gather of A in each block: m (n - 1) / n = A / 2 on the
// wire.
TEST(PartitionedActivations, AreStoredWholeWhereMemoryAllows) {
  Job job = tensor_parallel();
  set_recompute(job, Recompute::full);
  job.train.partition_activations = true;
  const Advice advice = advised(job, {.memory = k_plenty});
  const Recommendation* const made = find(advice, "partition_activations");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->calls_saved(), 2);
  EXPECT_EQ(made->wire_saved(), Bytes{2 * 8192 / 2});
  job.train.partition_activations = false;
  EXPECT_EQ(find(advised(job, {.memory = k_plenty}), "partition_activations"), nullptr);
}

/// 4 layers of width 64 on 2 tensor ranks and 2 stages; activations A of 1 x 512 x 64 fp32 = 131,072 bytes.
Job in_stages(const char* framework) {
  Job job = small_job(framework, 4, 64);
  job.model.positions = Positions::rotary;
  job.model.sequence = job.model.max_positions = 512;
  job.layout.tp = 2;
  job.layout.pp = 2;
  job.layout.dp = 1;
  job.train.micro_batches = 2;
  return job;
}

// In our trainer reduce_scatters and all_gathers send what the all_reduces did, and a stage sends A / 2
// instead of A. What is added, per micro-batch on the last stage: the gradients of the norms and biases of 2
// blocks, 6 x 64 fp32 each, and of the final norm, 2 x 64 (2 m (n - 1) / n = m).
TEST(SequenceParallelism, SplitsWhatTensorRanksHoldTwice) {
  const Advice advice = advised(in_stages("commlens"));
  const Recommendation* const made = find(advice, "sequence_parallel");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--sp on");
  EXPECT_EQ(made->wire_saved(), Bytes{2 * (131'072 / 2 - 2 * 6 * 64 * 4 - 2 * 64 * 4)});
  EXPECT_LT(made->memory_added(), Bytes{0});
}

/// Of torchtitan the gradients of norms are summed beside, which is little where tokens are many.
TEST(SequenceParallelism, SavesMemoryOfTorchtitan) {
  Job job = llama_job("torchtitan");
  job.model.sequence = job.model.max_positions = 1024;
  job.layout.tp = 2;
  job.layout.dp = 2;
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "sequence_parallel");
  ASSERT_EQ(made, nullptr) << "it is on by default";
  torchtitan::options(job).splits_sequence = false;
  const Advice without = advised(job);
  const Recommendation* const on = find(without, "sequence_parallel");
  ASSERT_NE(on, nullptr);
  EXPECT_EQ(on->setting, "--parallelism.enable_sequence_parallel");
  EXPECT_LT(on->memory_added(), Bytes{0});
}

// Megatron gathers inputs a second time in backward, 10 parts instead of 8 per layer.
TEST(SequenceParallelism, StaysWhereItSendsMore) {
  const Advice advice = advised(in_stages("megatron"));
  EXPECT_EQ(find(advice, "sequence_parallel"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "sequence parallelism: a rank makes"));
}

TEST(SequenceParallelism, IsNotNamedWhereItIsOnOrHasNoGroup) {
  Job on = in_stages("commlens");
  on.layout.sequence_parallel = true;
  Job alone = in_stages("commlens");
  alone.layout.tp = 1;
  for (const Job& job : {on, alone}) {
    const Advice advice = advised(job);
    EXPECT_EQ(find(advice, "sequence_parallel"), nullptr);
    EXPECT_FALSE(says(advice.not_advised, "sequence parallelism"));
  }
}

// Where memory is short it is a remedy, whatever it sends.
TEST(SequenceParallelism, IsARemedyForMemory) {
  const Job job = in_stages("megatron");
  const Bytes memory = advised(job).cost.memory;
  const Advice advice = advised(job, {.memory = memory - Bytes{1}});
  const Recommendation* const made = find(advice, "sequence_parallel");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->required);
  EXPECT_LT(made->wire_saved(), Bytes{0});
}

/// DeepSpeed's pipeline engine, 2 stages, a mask of 32 x 32 in each send.
Job masked(bool mask) {
  Job job = small_job("deepspeed", 4, 128);
  job.layout.pp = 2;
  job.layout.dp = 1;
  job.train.micro_batches = 2;
  deepspeed::options(job).pipeline_engine = true;
  deepspeed::options(job).attention_mask = mask;
  return job;
}

TEST(AttentionMask, IsNotSent) {
  const Advice advice = advised(masked(true));
  const Recommendation* const made = find(advice, "attention_mask");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->wire_saved(), Bytes{2 * 2 * 32 * 32});  // 2 micro-batches, fp16
  EXPECT_EQ(find(advised(masked(false)), "attention_mask"), nullptr);
}

}  // namespace
}  // namespace commlens
