// Laws of what torchtitan sends (docs/frameworks/torchtitan.md).
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"

namespace commlens {
namespace {

/// A published model as torchtitan trains it, without tensor ranks, on so many ranks.
Job published(const std::string& name, std::int64_t ranks) {
  Job job = with_framework(preset(name).value(), "torchtitan");
  job.layout = {.ranks = ranks};
  return job;
}

/// Bytes of a rank's calls of one kind and type in an iteration.
std::int64_t bytes_of(const Plan& plan, CommKind kind, DType dtype, Iteration iteration) {
  std::int64_t bytes = 0;
  for (const PlanStep& step : plan.classes.front().at(iteration).steps) {
    if (step.kind == PlanStep::Kind::call) {
      const CommOp& op = plan.tables.op(step.op());
      bytes += op.kind == kind && op.dtype == dtype ? message_bytes(op).value : 0;
    }
  }
  return bytes;
}

/// Every gradient is reduced once, in fp32: 4 bytes for each of the 8,030,261,248 parameters, of which 64
/// ranks divide every first dimension.
TEST(TitanLaws, ReductionsSumToTheParameters) {
  const Plan plan = make_plan(validated(published("llama3-8b", 64)).value()).value();
  EXPECT_EQ(bytes_of(plan, CommKind::reduce_scatter, DType::fp32, 1), 4 * std::int64_t{8'030'261'248});
}

/// Parameters are gathered in bf16 forward and backward, the group of norm and head (4096 + 128,256 x 4096)
/// once more for the loss.
TEST(TitanLaws, GathersAreTwiceTheParametersAndTheHeadForTheLoss) {
  const Plan plan = make_plan(validated(published("llama3-8b", 64)).value()).value();
  const std::int64_t head = 4096 + std::int64_t{128'256} * 4096;
  EXPECT_EQ(bytes_of(plan, CommKind::all_gather, DType::bf16, 1),
            2 * (2 * std::int64_t{8'030'261'248} + head));
}

/// The loss of all tokens at once needs no gather of its own, and reduces the head with the norm.
TEST(TitanLaws, AWholeLossGathersTheHeadTwice) {
  Job job = published("llama3-8b", 64);
  torchtitan::options(job).loss_chunks = 0;
  const Plan plan = make_plan(validated(job).value()).value();
  EXPECT_EQ(bytes_of(plan, CommKind::reduce_scatter, DType::fp32, 1), 4 * std::int64_t{8'030'261'248});
  const std::int64_t head = 4096 + std::int64_t{128'256} * 4096;  // stays gathered until the backward pass
  EXPECT_EQ(bytes_of(plan, CommKind::all_gather, DType::bf16, 1),
            2 * (2 * std::int64_t{8'030'261'248} - head));
}

/// Replicas add the all_reduce of a shard of every gradient: of 8 ranks a shard, an eighth.
TEST(TitanLaws, ReplicasReduceShards) {
  Job job = published("llama3-8b", 64);
  torchtitan::options(job).replicate = 8;
  const Plan plan = make_plan(validated(job).value()).value();
  std::int64_t shards = 0;
  for (const PlanStep& step : plan.classes.front().at(1).steps) {
    if (step.kind == PlanStep::Kind::call) {
      const CommOp& op = plan.tables.op(step.op());
      const bool is_shard = op.kind == CommKind::all_reduce && op.phase == Phase::backward;
      shards += is_shard ? message_bytes(op).value : 0;
    }
  }
  EXPECT_EQ(shards, 4 * std::int64_t{8'030'261'248} / 8);
}

/// Steps that log or save are every so many; all others are the same.
TEST(TitanLaws, LogsEverySoManySteps) {
  Job job = published("llama3-8b", 64);
  torchtitan::options(job).log_frequency = 4;
  const Plan plan = make_plan(validated(job).value()).value();
  const RankClass& ranks = plan.classes.front();
  const std::int64_t plain = ranks.at(plan.steady_iteration()).calls();
  for (const Iteration iteration : {3, 7, 11, 4003}) {
    EXPECT_EQ(ranks.at(iteration).calls(), plain + 3) << iteration;
  }
  for (const Iteration iteration : {1, 2, 4, 5, 6, 8, 4002, 4004}) {
    EXPECT_EQ(ranks.at(iteration).calls(), plain) << iteration;
  }
}

}  // namespace
}  // namespace commlens
