#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {
namespace {

/// Two ranks of context parallelism, 8 tokens each: keys of 2 heads of 4 are 64 elements.
Job two_context_ranks() {
  Job job;
  job.framework = "torch-tp";
  ModelConfig& model = job.model;
  model.family = Family::llama;
  model.gated_mlp = true;
  model.linear_bias = model.qkv_bias = model.norm_bias = false;
  model.layers = 3;
  model.hidden = 8;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 4;
  model.ffn_hidden = 12;
  model.vocab = model.raw_vocab = 20;
  model.sequence = model.max_positions = 16;
  job.layout.cp = 2;
  job.train.dtype = DType::bf16;
  return job;
}

/// Calls of rank 0 in an iteration, by rule and element type, with their inputs.
std::map<std::pair<std::string, DType>, std::pair<int, std::int64_t>> calls_of(const Job& job) {
  const Trace trace = make_plan(validated(job).value()).value().trace_of({1});
  std::map<std::pair<std::string, DType>, std::pair<int, std::int64_t>> calls;
  for (const CommEvent& event : trace.streams.at(0).events) {
    const CommOp& op = trace.op(event.op);
    auto& [count, input] = calls[{trace.rule(op.rule).name, op.dtype}];
    ++count;
    input = op.input.value;
  }
  return calls;
}

using Calls = std::map<std::pair<std::string, DType>, std::pair<int, std::int64_t>>;

/// FlexAttention: keys and values gathered apart, their gradients reduced apart, of three blocks.
TEST(TorchContext, GathersAllKeysAndValues) {
  Job job = two_context_ranks();
  options(job).ring = RingMethod::kv_all_gather;
  EXPECT_EQ(calls_of(job), (Calls{{{"context.gather_all_keys", DType::bf16}, {6, 64}},
                                  {{"context.reduce_gradients", DType::bf16}, {6, 128}}}));
  job.train.recompute = Recompute::full;  // gathered again in the backward pass
  EXPECT_EQ(calls_of(job).at({"context.gather_all_keys", DType::bf16}).first, 12);
}

/// The ring: both in one buffer, the gradients in fp32 once for each rank.
TEST(TorchContext, ExchangesKeysAndValuesRoundARing) {
  Job job = two_context_ranks();
  options(job).ring = RingMethod::all_to_all;
  EXPECT_EQ(calls_of(job), (Calls{{{"context.exchange_keys", DType::bf16}, {6, 128}},
                                  {{"context.exchange_gradients", DType::fp32}, {6, 128}}}));
}

/// Operations and bytes of the steps of a phase in an iteration.
std::pair<double, std::int64_t> work_in(const Job& job, Phase phase) {
  const Plan plan = make_plan(validated(job).value()).value();
  const Program& program = plan.classes.at(0).iterations.back();
  std::pair<double, std::int64_t> sum{0, 0};
  for (const PlanStep& step : program.steps) {
    if (step.kind == PlanStep::Kind::work && plan.works[step.work()].phase == phase) {
      sum.first += plan.works[step.work()].flops.value;
      sum.second += plan.works[step.work()].moved.value;
    }
  }
  return sum;
}

/// Of each of three blocks all but the product of fc2, 2 x 16 x 12 x 8 operations (torch.utils.checkpoint,
/// early_stop), is computed again.
TEST(TorchCheckpoint, StopsBeforeTheLastProduct) {
  Job job = two_context_ranks();
  job.layout.cp = 1;
  const double forward = work_in(job, Phase::forward).first;
  job.train.recompute = Recompute::full;
  constexpr double head = 2.0 * 16 * 20 * 8;
  EXPECT_EQ(work_in(job, Phase::recompute).first, forward - head - 3 * 2.0 * 16 * 12 * 8);
}

/// Adam's states are of the parameters' type: seven times each of 2 x 20 x 8 + 3 (8 x 16 + 8 x 8 + 3 x 8 x 12
/// + 2 x 8) + 8 parameters.
TEST(TorchUpdate, MovesStatesOfTheParametersType) {
  constexpr std::int64_t parameters = 2 * 20 * 8 + 3 * (8 * 16 + 8 * 8 + 3 * 8 * 12 + 2 * 8) + 8;
  Job job = two_context_ranks();
  job.layout.cp = 1;
  EXPECT_EQ(work_in(job, Phase::optimizer).second, 7 * 2 * parameters);
  job.train.dtype = DType::fp32;
  EXPECT_EQ(work_in(job, Phase::optimizer).second, 7 * 4 * parameters);
}

}  // namespace
}  // namespace commlens::pytorch
