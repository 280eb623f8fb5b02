#include "commlens/plan/program_builder.hpp"

#include <gtest/gtest.h>

#include "commlens/plan/model_work.hpp"

namespace commlens {
namespace {

const Rule k_rule{"test.rule", "here"};

Job job_of_four() {
  Job job;
  job.layout = resolved({.dp = 2, .tp = 2}).value();
  return job;
}

/// A builder, two pieces of computing and two communicators.
struct Fixture : testing::Test {
  Plan plan{.job = job_of_four(), .tables = Trace(job_of_four().layout.mesh())};
  ProgramBuilder out{plan};
  KernelListId matrix = out.intern({Gemm{1, 2, 3}});
  KernelListId norm = out.intern({MemoryKernel{Bytes{10}}});

  void reduce(GroupId group) { out.all_reduce(group, {8}, DType::fp32, k_rule); }
  static std::vector<StepIndex> waits(const Program& program, std::size_t step) {
    const auto range = program.waits_of(program.steps.at(step));
    return {range.begin(), range.end()};
  }
};
using Waits = std::vector<StepIndex>;
using ProgramSteps = Fixture;

TEST_F(ProgramSteps, JoinWhatIsComputedInARow) {
  out.set_phase(Phase::forward, 0);
  out.compute(matrix);
  out.compute(norm);
  reduce(out.groups.tp);
  out.compute(matrix);
  out.set_phase(Phase::backward, 0);
  out.compute(matrix);
  const Program program = out.take();
  ASSERT_EQ(program.steps.size(), 4U);
  EXPECT_EQ(program.calls(), 1);
  EXPECT_EQ(plan.works[program.steps[0].work()].kernels.size(), 2U);
  EXPECT_EQ(plan.works[program.steps[0].work()].flops.value, 12);
  EXPECT_EQ(plan.works[program.steps[3].work()].phase, Phase::backward);
}

TEST_F(ProgramSteps, OfABlockingCallStandBetweenWhatIsComputed) {
  out.compute(matrix);
  reduce(out.groups.tp);
  out.compute(matrix);
  const Program program = out.take();
  EXPECT_EQ(waits(program, 1), Waits{0});
  EXPECT_EQ(waits(program, 2), Waits{1});
  EXPECT_EQ(plan.streams, (std::vector<std::string>{"compute", "tp"}));
}

TEST_F(ProgramSteps, OfALaterCallRunBesideWhatIsComputed) {
  out.compute(matrix);
  out.set_waiting(Waiting::later);
  reduce(out.groups.dp);
  const StepIndex reduction = out.last_call();
  out.set_waiting(Waiting::at_once);
  out.compute(norm);
  reduce(out.groups.tp);
  out.wait_for(reduction);
  out.compute(matrix);
  const Program program = out.take();
  EXPECT_EQ(waits(program, 1), Waits{0}) << "dp";
  EXPECT_EQ(waits(program, 2), Waits{}) << "computed beside it";
  EXPECT_EQ(waits(program, 3), Waits{2}) << "tp";
  EXPECT_EQ(waits(program, 4), (Waits{3, 1}));
}

TEST_F(ProgramSteps, OfABatchWaitForTheSameComputing) {
  out.compute(matrix);
  out.set_waiting(Waiting::batched);
  reduce(out.groups.tp);
  reduce(out.groups.dp);
  out.set_waiting(Waiting::at_once);
  out.compute(matrix);
  const Program program = out.take();
  EXPECT_EQ(waits(program, 1), Waits{0});
  EXPECT_EQ(waits(program, 2), Waits{0}) << "not for the call before it";
  EXPECT_EQ(waits(program, 3), (Waits{1, 2}));
}

TEST_F(ProgramSteps, AfterABatchWaitForAllOfIt) {
  out.compute(matrix);
  out.set_waiting(Waiting::batched);
  reduce(out.groups.dp);
  out.set_waiting(Waiting::at_once);
  reduce(out.groups.tp);
  out.compute(matrix);
  const Program program = out.take();
  EXPECT_EQ(waits(program, 2), (Waits{0, 1})) << "a call";
  EXPECT_EQ(waits(program, 3), Waits{2}) << "computing, which that call implies";
}

TEST_F(ProgramSteps, ThatStayOpenHoldBackTheNextProgram) {
  out.compute(matrix);
  reduce(out.groups.dp);
  out.set_waiting(Waiting::later);
  reduce(out.groups.tp);
  const Program first = out.take();
  EXPECT_EQ(first.open, Waits{1}) << "the call that is waited for at once";
  out.compute(matrix);
  plan.classes.push_back({.ranks = {Rank{0}, Rank{3}}, .iterations = {first, out.take()}});
  const StreamOrder stream = plan.order_of({0, 1}).streams.at(0);
  ASSERT_EQ(stream.steps.size(), 4U);
  const auto begin = stream.waits.begin() + stream.steps[3].first_wait;
  EXPECT_EQ((std::vector<std::uint32_t>(begin, begin + stream.steps[3].waits)),
            (std::vector<std::uint32_t>{0, 1}));
}

TEST_F(ProgramSteps, WaitForTheLastOfManyCallsOfAStream) {
  out.set_waiting(Waiting::later);
  std::vector<StepIndex> calls;
  for (int call = 0; call < 70'000; ++call) {
    reduce(out.groups.dp);
    calls.push_back(out.last_call());
  }
  for (const StepIndex call : calls) {
    out.wait_for(call);
  }
  out.compute(matrix);
  EXPECT_EQ(waits(out.take(), 70'000), Waits{69'999});
}

TEST_F(ProgramSteps, OfOneCommunicatorFollowOneAnotherWithoutAWait) {
  reduce(out.groups.tp);
  reduce(out.groups.tp);
  reduce(out.groups.dp);
  const Program program = out.take();
  EXPECT_EQ(waits(program, 1), Waits{});
  EXPECT_EQ(waits(program, 2), Waits{1});
}

TEST_F(ProgramSteps, AppendedFollowWhatWasComputed) {
  out.compute(matrix);
  Program program = out.take();
  reduce(out.groups.tp);
  reduce(out.groups.dp);
  program.append(out.take());
  EXPECT_EQ(waits(program, 1), Waits{0});
  EXPECT_EQ(waits(program, 2), (Waits{1, 0}));
}

TEST_F(ProgramSteps, InAnOrderNameTheStepBeforeOnTheirStream) {
  out.compute(matrix);
  out.set_waiting(Waiting::later);
  reduce(out.groups.tp);
  out.compute(norm);
  plan.classes.push_back({.ranks = {Rank{0}, Rank{3}}, .iterations = {out.take()}});
  const StepOrder order = plan.order_of({0, 1});
  const StreamOrder& stream = order.streams.at(0);
  ASSERT_EQ(stream.steps.size(), 6U);
  const auto waits_at = [&](std::size_t at) {
    const auto first = stream.waits.begin() + stream.steps[at].first_wait;
    return std::vector<std::uint32_t>(first, first + stream.steps[at].waits);
  };
  EXPECT_EQ(waits_at(1), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(waits_at(2), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(waits_at(3), (std::vector<std::uint32_t>{2})) << "the next iteration computes on";
  EXPECT_EQ(waits_at(4), (std::vector<std::uint32_t>{1, 2, 3})) << "its call follows the earlier one";
  EXPECT_EQ(stream.steps[4].row, 1U) << "the second call of the trace";
  EXPECT_EQ(order.works.at(0).flops, 12);
  EXPECT_EQ(order.works.at(1).bytes, 10);
}

}  // namespace
}  // namespace commlens
