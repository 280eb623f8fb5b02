// What waits for what in the plans of each framework, as its source has it.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

/// Two layers of the 19M model under a framework.
Job two_layers(const std::string& framework) {
  Job job = with_framework(preset("19M").value(), framework);
  job.model.layers = 2;
  job.train.recompute = Recompute::none;
  job.train.micro_batches = 1;
  return job;
}

/// "1 tp all_reduce <0": index, stream, what, and the indices of what it waits for.
std::vector<std::string> steps_of(const Plan& plan, Phase phase) {
  std::vector<std::string> lines;
  const Program& program = plan.classes.at(0).iterations.back();
  for (std::size_t at = 0; at < program.steps.size(); ++at) {
    const PlanStep& step = program.steps[at];
    const bool is_call = step.kind == PlanStep::Kind::call;
    const Phase own = is_call ? plan.tables.op(step.op()).phase : plan.works[step.work()].phase;
    if (own != phase) {
      continue;
    }
    std::string line = std::to_string(at) + " " + plan.streams.at(static_cast<std::size_t>(step.stream));
    line += is_call ? " " + std::string(name_of(plan.tables.op(step.op()).kind)) : "";
    for (const StepIndex earlier : program.waits_of(step)) {
      line += " <" + std::to_string(earlier);
    }
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

/// Source: megatron core_v0.7.0 tensor_parallel/layers.py:404-470: the all_reduce of the input's gradient
/// runs beside the weight's, which it is waited for after.
TEST(StepOrder, OfMegatronHidesAllReducesBehindWeightGradients) {
  Job job = two_layers("megatron");
  job.framework_version = "core_v0.7.0";
  job.model.layers = 1;
  job.layout.tp = 2;
  const Plan plan = make_plan(validated(job).value()).value();
  EXPECT_EQ(steps_of(plan, Phase::backward),
            (Lines{"11 compute <10",        // loss, and the head's input gradient
                   "12 tp all_reduce <11",  //
                   "13 compute",            // the head's weight gradient, beside it
                   "14 compute <12",        // final norm, fc2, activation, fc1's input gradient
                   "15 tp all_reduce <14",  //
                   "16 compute",            // fc1's weight gradient
                   "17 compute <15",        // ln2, proj, attention, qkv's input gradient
                   "18 tp all_reduce <17",  //
                   "19 compute",            // qkv's weight gradient
                   "20 compute <18"}));     // ln1, embedding
}

/// Source: torch 1.13 csrc/distributed/c10d/reducer.cpp: a bucket goes when its last gradient is ready, and
/// all are waited for after the backward pass.
TEST(StepOrder, OfDdpReducesBucketsBesideBackward) {
  Job job = two_layers("torch-ddp");
  job.layout.dp = 2;
  pytorch::options(job).ddp.bucket_cap = Bytes{2 << 20};
  const Plan plan = make_plan(validated(job).value()).value();
  const Lines backward = steps_of(plan, Phase::backward);
  ASSERT_GE(backward.size(), 6U);
  EXPECT_EQ(backward[0], "1 compute");
  EXPECT_EQ(backward[1], "2 dp all_reduce <1");
  EXPECT_EQ(backward[2], "3 compute") << "does not wait for the first bucket";
  EXPECT_EQ(backward[3], "4 dp all_reduce <3");
  const Lines update = steps_of(plan, Phase::optimizer);
  ASSERT_EQ(update.size(), 1U);
  const std::string& last = backward.back();  // bucket, which follows the others on their stream
  EXPECT_NE(last.find(" dp all_reduce <"), std::string::npos) << last;
  EXPECT_EQ(update[0], std::to_string(backward.size() + 1) + " compute <" + std::to_string(backward.size()));
}

/// Source: deepspeed 0.14.0 runtime/zero/partitioned_param_coordinator.py:261: a module waits for its own
/// parameters; those fetched ahead arrive beside what it computes.
TEST(StepOrder, OfZero3GathersAhead) {
  Job job = two_layers("deepspeed");
  job.layout.dp = 4;
  job.train.zero_stage = 3;
  job.train.persistence_threshold = 0;
  deepspeed::options(job).prefetch_bucket_size = 1'000'000;
  const Plan plan = make_plan(validated(job).value()).value();
  const Program& program = plan.classes.at(0).iterations.back();
  std::size_t beside = 0;
  for (std::size_t at = 2; at < program.steps.size(); ++at) {
    const PlanStep& step = program.steps[at];
    const auto waits = program.waits_of(step);
    const bool is_work = step.kind == PlanStep::Kind::work;
    const bool follows_gather = program.steps[at - 1].kind == PlanStep::Kind::call;
    const bool waits_for_it = std::find(waits.begin(), waits.end(), at - 1) != waits.end();
    beside += is_work && follows_gather && !waits_for_it ? 1 : 0;
  }
  EXPECT_GT(beside, 3U) << "pieces of computing that do not wait for the gather issued just before";
  deepspeed::options(job).prefetch_bucket_size = 0;
  const Plan without = make_plan(validated(job).value()).value();
  const Lines forward = steps_of(without, Phase::forward);
  ASSERT_GE(forward.size(), 4U);
  EXPECT_EQ(forward[0], "0 dp all_gather");
  EXPECT_EQ(forward[1], "1 compute <0");
  EXPECT_EQ(forward[2], "2 dp all_gather <1");
  EXPECT_EQ(forward[3], "3 compute <2");
}

/// Source: docs/training.md: reductions run beside the backward pass and end before the update.
TEST(StepOrder, OfTheTrainerEndsReductionsBeforeTheUpdate) {
  Job job = two_layers("commlens");
  job.layout.dp = 2;
  job.train.zero_stage = 0;
  job.train.gradient_clipping = 0;
  const Plan plan = make_plan(validated(job).value()).value();
  const Program& program = plan.classes.at(0).iterations.back();
  std::vector<StepIndex> reductions;
  for (StepIndex at = 0; at < program.steps.size(); ++at) {
    const PlanStep& step = program.steps[at];
    if (step.kind == PlanStep::Kind::call && plan.tables.op(step.op()).phase == Phase::backward) {
      reductions.push_back(at);
    }
  }
  ASSERT_GT(reductions.size(), 1U);
  const Lines update = steps_of(plan, Phase::optimizer);
  ASSERT_EQ(update.size(), 1U);
  EXPECT_NE((update[0] + " ").find("<" + std::to_string(reductions.back()) + " "), std::string::npos)
      << "the last one, which follows the others on their stream: " << update[0];
}

/// Source: torch 2.9 distributed/fsdp/_fully_shard/_fsdp_param_group.py: a gather begins once the unit two
/// before is done (the copy out of the one before that it follows), reductions run beside the backward pass
/// of the next unit, which waits for them before its own, and all are waited for at the end.
TEST(StepOrder, OfFsdpGathersAheadAndReducesBeside) {
  Job job = two_layers("torch-fsdp");
  job.layout.dp = 2;
  const Plan plan = make_plan(validated(job).value()).value();
  EXPECT_EQ(steps_of(plan, Phase::forward),
            (Lines{"0 dp block 2 all_gather",  // the root
                   "1 compute <0",             // embedding
                   "2 dp block 2 all_gather",  // layer 1, from the start
                   "3 compute <2",             //
                   "4 dp block 2 all_gather",  // layer 2, beside the embedding
                   "5 compute <4"}));          // layer 2, final norm, head
  EXPECT_EQ(steps_of(plan, Phase::backward),
            (Lines{"6 dp block 2 all_gather <5",       // layer 2, beside the head
                   "7 compute",                        // head, final norm
                   "8 dp block 2 all_gather <7",       // layer 1, beside layer 2
                   "9 compute <6",                     //
                   "10 dp block 2 reduce_scatter <9",  // layer 2, beside layer 1
                   "11 compute <8",                    //
                   "12 dp block 2 reduce_scatter <11",
                   "13 compute <10",                       // embedding, once layer 2 is reduced
                   "14 dp block 2 reduce_scatter <13"}));  // the root; what follows is on the same stream
}
}  // namespace
}  // namespace commlens
