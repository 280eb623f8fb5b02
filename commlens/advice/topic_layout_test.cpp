#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"

namespace commlens {
namespace {

/// Megatron, 4 layers of width 64, tensor groups of `tp`.
Job megatron(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Job job = small_job("megatron", 4, 64);
  job.framework_version = "core_v0.7.0";  // no messages but those of the model
  job.model.heads = 8;
  job.model.vocab = 104;  // of 8 equal parts
  job.model.raw_vocab = 104;
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.layout.dp = dp;
  job.train.micro_batches = 4;
  return job;
}

// Tensor groups of 8 on nodes of 4: as tp 4 x pp 2 none crosses a node.
TEST(TensorRanksOnNode, MoveToThePipelineWhereAGroupIsLargerThanANode) {
  const Advice advice = advised(megatron(8, 1, 1), {.ranks_per_node = 4});
  const Recommendation* const made = find(advice, "tensor_ranks_on_node");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--tp 4 --pp 2 --dp 1 --micro-batches 4");
  EXPECT_EQ(made->setting, "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 of Megatron");
  // A ring of 8 ranks on two nodes: 2 of 8 edges cross.
  EXPECT_EQ(made->before.all_ranks.wire_inter_node.value, made->before.all_ranks.wire.value / 4);
  // Between the stages: 4 micro-batches of 1 x 32 x 64 fp32, there and back, on each of 4 tensor ranks.
  EXPECT_EQ(made->after.all_ranks.wire_inter_node, Bytes{4 * 2 * 4 * 32 * 64 * 4});
}

TEST(TensorRanksOnNode, StayWhereGroupsLieInsideNodes) {
  for (const std::int64_t node : {2, 4, 8}) {
    const Advice advice = advised(megatron(2, 1, 4), {.ranks_per_node = node});
    EXPECT_EQ(find(advice, "tensor_ranks_on_node"), nullptr) << node;
    EXPECT_TRUE(says(advice.not_advised, "lie inside nodes")) << node;
  }
}

// Groups of 2 on nodes of 3: every second group crosses. With 2 ranks on a node none does, but the gradients
// of all 3 replicas do; as tp 1 x pp 2 a node holds all replicas of a stage, and only activations cross.
TEST(TensorRanksOnNode, TakeThePlacementThatLeavesTheNodeLeast) {
  const Advice advice = advised(megatron(2, 1, 3), {.ranks_per_node = 3});
  const Recommendation* const made = find(advice, "tensor_ranks_on_node");
  ASSERT_NE(made, nullptr);
  EXPECT_LT(made->after.all_ranks.wire_inter_node, made->before.all_ranks.wire_inter_node);
  EXPECT_EQ(made->setting, "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 of Megatron");
}

// 4 layers in 4 stages allow no more stages; groups of 2 on nodes of 3 leave only whole groups on each node.
// Then every send leaves it: 6 of the 8 ranks send activations on and gradients back, 32 x 64 fp32, 4 times.
TEST(TensorRanksOnNode, FillNodesWithWholeGroups) {
  const Advice advice = advised(megatron(2, 4, 1), {.ranks_per_node = 3});
  const Recommendation* const made = find(advice, "tensor_ranks_on_node");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--gpus-per-node 2");
  EXPECT_EQ(made->setting, "start 2 ranks on each node instead of 3 (slots=2 in the hostfile)");
  EXPECT_EQ(made->after.all_ranks.wire_inter_node, Bytes{2 * 6 * 4 * 32 * 64 * 4});
  EXPECT_EQ(made->calls_saved(), 0);
  EXPECT_EQ(made->wire_saved(), Bytes{0});
}

TEST(TensorRanksOnNode, AreNotJudgedWithoutTheSizeOfANode) {
  EXPECT_TRUE(says(advised(megatron(4, 1, 1)).not_judged, "--gpus-per-node"));
  EXPECT_FALSE(says(advised(megatron(1, 1, 8)).not_judged, "--gpus-per-node"));
}

/// Our trainer, 8 layers in 2 stages, 2 micro-batches of `micro_batch`.
Job pipeline(std::int64_t layers, std::int64_t micro_batch) {
  Job job = small_job("commlens", layers, 64);
  job.layout.pp = 2;
  job.layout.dp = 1;
  job.train.micro_batch = micro_batch;
  job.train.micro_batches = 2;
  return job;
}

// (p-1)/(m+p-1) is 1/3. Cut into 8 micro-batches of 1 it is 1/9; 2 layers allow no second chunk per stage.
TEST(PipelineBubble, IsLoweredByMoreMicroBatches) {
  const Advice advice = advised(pipeline(2, 4));
  const Recommendation* const made = find(advice, "pipeline_bubble");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--micro-batch 1 --micro-batches 8");
  EXPECT_DOUBLE_EQ(made->before.bubble, 1.0 / 3);
  EXPECT_DOUBLE_EQ(made->after.bubble, 1.0 / 9);
  // The same bytes in four times the sends and receives: 2 per micro-batch and rank; the loss stays.
  EXPECT_EQ(made->calls_saved(), -12);
  EXPECT_EQ(made->wire_saved(), Bytes{0});
}

// With micro-batches of 1, chunks are what is left: 8 layers allow 4 a stage, (2-1)/(4 x 2 + 1) = 1/9.
TEST(PipelineBubble, IsLoweredByInterleaving) {
  const Advice advice = advised(pipeline(8, 1));
  const Recommendation* const made = find(advice, "pipeline_bubble");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--virtual-stages 4");
  EXPECT_DOUBLE_EQ(made->after.bubble, 1.0 / 9);
  EXPECT_LT(made->wire_saved(), Bytes{0});
}

TEST(PipelineBubble, StaysWhereNothingLowersIt) {
  const Advice advice = advised(pipeline(2, 1));
  EXPECT_EQ(find(advice, "pipeline_bubble"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "the pipeline's bubble is 33 % of a step"));
}

TEST(PipelineBubble, IsNoMatterWithoutAPipeline) {
  const Advice advice = advised(small_job("commlens", 2, 64));
  EXPECT_EQ(advice.cost.bubble, 0);
  EXPECT_FALSE(says(advice.not_advised, "bubble"));
}

}  // namespace
}  // namespace commlens
