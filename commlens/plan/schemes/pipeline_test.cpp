#include "commlens/plan/schemes/pipeline.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::vector<std::int64_t> sizes(const StageBounds& bounds) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    result.push_back(bounds[i + 1] - bounds[i]);
  }
  return result;
}

using Sizes = std::vector<std::int64_t>;

TEST(PartitionUniform, GivesTheFirstStagesOneMore) {
  EXPECT_EQ(sizes(partition_uniform(10, 4)), (Sizes{3, 3, 2, 2}));
  EXPECT_EQ(sizes(partition_uniform(2, 4)), (Sizes{1, 1, 0, 0}));
}

/// Transformer layers per stage, from DeepSpeed's own partition function. The
/// list is [embedding, pre, layer x L, post, norm, head] with weight 1 for pre, layers and post.
Sizes neox_layers(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> weights(static_cast<std::size_t>(layers) + 5, 1);
  weights[0] = 0;
  weights[weights.size() - 2] = 0;
  weights[weights.size() - 1] = 0;
  const StageBounds bounds = partition_balanced(weights, stages);
  Sizes result;
  for (std::size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
    const std::int64_t begin = std::max<std::int64_t>(bounds[stage], 2);
    const std::int64_t end = std::min(bounds[stage + 1], layers + 2);
    result.push_back(std::max<std::int64_t>(end - begin, 0));
  }
  return result;
}

TEST(PartitionBalanced, SplitsNeoxLayersAsRecorded) {
  EXPECT_EQ(neox_layers(4, 4), (Sizes{1, 2, 1, 0}));
  EXPECT_EQ(neox_layers(24, 4), (Sizes{6, 7, 6, 5}));
  EXPECT_EQ(neox_layers(24, 8), (Sizes{3, 4, 3, 3, 3, 3, 3, 2}));
  EXPECT_EQ(neox_layers(40, 4), (Sizes{10, 11, 10, 9}));
  EXPECT_EQ(neox_layers(40, 8), (Sizes{5, 6, 5, 5, 5, 5, 5, 4}));
  EXPECT_EQ(neox_layers(12, 4), (Sizes{3, 4, 3, 2}));
  EXPECT_EQ(neox_layers(6, 4), (Sizes{1, 2, 2, 1}));
  EXPECT_EQ(neox_layers(44, 4), (Sizes{11, 12, 11, 10}));
  EXPECT_EQ(neox_layers(24, 2), (Sizes{12, 12}));
}

/// Of L + 2 items the first (L + 2) mod p stages get one more; the end stages lose one each.
TEST(PartitionBalanced, FollowsTheClosedForm) {
  for (std::int64_t layers = 4; layers <= 40; ++layers) {
    for (std::int64_t stages = 2; stages <= 8 && layers + 2 >= stages; ++stages) {
      Sizes expected;
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        expected.push_back((layers + 2) / stages + (stage < (layers + 2) % stages ? 1 : 0));
      }
      expected.front() -= 1;
      expected.back() -= 1;
      EXPECT_EQ(neox_layers(layers, stages), expected) << "layers=" << layers << " stages=" << stages;
    }
  }
}

void expect_each_micro_batch_once(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  using Kind = PipelineStep::Kind;
  std::map<Kind, std::int64_t> count;
  for (const PipelineStep& step : one_f_one_b_with_transfers(stage, stages, micro_batches)) {
    ++count[step.kind];
  }
  const bool first = stage == 0;
  const bool last = stage + 1 == stages;
  EXPECT_EQ(count[Kind::forward], micro_batches);
  EXPECT_EQ(count[Kind::backward], micro_batches);
  EXPECT_EQ(count[Kind::send_activation], last ? 0 : micro_batches);
  EXPECT_EQ(count[Kind::recv_grad], last ? 0 : micro_batches);
  EXPECT_EQ(count[Kind::recv_activation], first ? 0 : micro_batches);
  EXPECT_EQ(count[Kind::send_grad], first ? 0 : micro_batches);
  EXPECT_EQ(count[Kind::load], first || last ? micro_batches : 0);
}

TEST(DeepSpeedSchedule, SendsAndReceivesEveryMicroBatchOnce) {
  for (const std::int64_t stages : {1, 2, 3, 4, 7}) {
    for (const std::int64_t micro_batches : {1, 2, 5, 8}) {
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        SCOPED_TRACE(testing::Message()
                     << "stage " << stage << " of " << stages << ", " << micro_batches << " micro-batches");
        expect_each_micro_batch_once(stage, stages, micro_batches);
      }
    }
  }
}

/// The first stage of two with two micro-batches, as recorded (golden neox p2): forward, send, forward,
/// gradient, …
TEST(DeepSpeedSchedule, RunsOneForwardOneBackward) {
  using Kind = PipelineStep::Kind;
  std::vector<Kind> kinds;
  for (const PipelineStep& step : one_f_one_b_with_transfers(0, 2, 2)) {
    kinds.push_back(step.kind);
  }
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::load, Kind::forward, Kind::send_activation, Kind::load,
                                      Kind::forward, Kind::recv_grad, Kind::send_activation, Kind::backward,
                                      Kind::recv_grad, Kind::backward}));
}

TEST(OneForwardOneBackward, WarmsUpByStage) {
  const std::vector<ComputeStep> steps = one_f_one_b(1, 4, 4);
  std::string order;
  for (const ComputeStep& step : steps) {
    order += step.is_forward ? 'F' : 'B';
  }
  EXPECT_EQ(order, "FFFBFBBB");
}

TEST(Interleaved, RunsEveryChunkOfEveryMicroBatchOnce) {
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    std::map<std::tuple<bool, std::int64_t, std::int64_t>, int> count;
    for (const ComputeStep& step : interleaved_1f1b(stage, 4, 2, 8)) {
      ++count[{step.is_forward, step.micro_batch, step.chunk}];
    }
    EXPECT_EQ(count.size(), 2U * 8U * 2U);
    for (const auto& [step, times] : count) {
      EXPECT_EQ(times, 1);
    }
  }
}

}  // namespace
}  // namespace commlens
