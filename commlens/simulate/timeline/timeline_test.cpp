#include "commlens/simulate/timeline/timeline.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "commlens/plan/program_builder.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens {
namespace {

const Rule k_rule{"test.rule", "here"};
constexpr Ticks k_second = 1'000'000'000'000;

Job job_of(ParallelLayout layout) {
  Job job;
  job.layout = resolved(std::move(layout)).value();
  return job;
}

Plan empty_plan(const Job& job) { return {.job = job, .tables = Trace(job.layout.mesh())}; }

/// One class of ranks that take `program` in every iteration.
void add_class(Plan& plan, RankRange ranks, Program program) {
  RankClass& added = plan.classes.emplace_back();
  added.ranks = ranks;
  added.iterations = {std::move(program)};
}

/// A forward pass takes 1 s, a backward pass 2 s, divided over `chunks`; calls take nothing.
StepCosts passes_of(const Plan& plan, Ticks chunks = 1) {
  StepCosts costs;
  costs.work = [&plan, chunks](const SimulatedClass&, WorkId work) {
    return (plan.works[work].phase == Phase::forward ? 1 : 2) * k_second / chunks;
  };
  costs.call = [](const ClassGroup&, OpId) { return Ticks{0}; };
  return costs;
}

Ticks end_of(const std::vector<ClassTimeline>& lines) {
  Ticks end = 0;
  for (const ClassTimeline& line : lines) {
    for (const StepTimes& times : line.times) {
      end = std::max(end, times.finished);
    }
  }
  return end;
}

/// Writes the passes of a stage in this order, with the messages between them; nothing waits for a send.
class StageWriter {
 public:
  StageWriter(ProgramBuilder& out, std::int64_t stage, std::int64_t stages, std::int64_t chunks)
      : out_(out), is_first_(stage == 0), is_last_(stage == stages - 1), last_chunk_(chunks - 1) {}

  void write(const ComputeStep& step) {
    const bool is_start = is_first_ && step.chunk == 0;
    const bool is_end = is_last_ && step.chunk == last_chunk_;
    out_.set_phase(step.is_forward ? Phase::forward : Phase::backward,
                   static_cast<std::int32_t>(step.micro_batch));
    if (step.is_forward ? !is_start : !is_end) {
      out_.recv(step.is_forward ? out_.groups.from_previous : out_.groups.from_next, {8}, DType::bf16,
                k_rule);
    }
    out_.compute(out_.intern({Gemm{1, 1, 1}}));
    if (step.is_forward ? !is_end : !is_start) {
      out_.set_waiting(Waiting::later);
      out_.send(step.is_forward ? out_.groups.to_next : out_.groups.to_previous, {8}, DType::bf16, k_rule);
      out_.set_waiting(Waiting::at_once);
    }
  }

 private:
  ProgramBuilder& out_;
  bool is_first_;
  bool is_last_;
  std::int64_t last_chunk_;
};

using StageOrder = std::vector<ComputeStep> (*)(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                                std::int64_t micro_batches);

/// Seconds of one iteration under a schedule.
double scheduled_seconds(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches,
                         StageOrder order) {
  const Job job = job_of({.pp = stages});
  Plan plan = empty_plan(job);
  ProgramBuilder out(plan);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    StageWriter writer(out, stage, stages, chunks);
    for (const ComputeStep& step : order(stage, stages, chunks, micro_batches)) {
      writer.write(step);
    }
    add_class(plan, {Rank{stage}, Rank{stage}}, out.take());
  }
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, passes_of(plan, chunks));
  return lines ? static_cast<double>(end_of(*lines)) / k_ticks_per_second : 0;
}

// (m + p - 1)(f + b): Narayanan et al., arXiv 2104.04473 §2.2.
TEST(Timeline, OfGPipeHasABubbleOfStagesMinusOne) {
  EXPECT_EQ(scheduled_seconds(4, 1, 8,
                              [](std::int64_t, std::int64_t, std::int64_t, std::int64_t micro_batches) {
                                return gpipe(micro_batches);
                              }),
            (8 + 3) * 3);
}

TEST(Timeline, OfOneForwardOneBackwardHasTheSameBubble) {
  const StageOrder order = [](std::int64_t stage, std::int64_t stages, std::int64_t,
                              std::int64_t micro_batches) {
    return one_f_one_b(stage, stages, micro_batches);
  };
  EXPECT_EQ(scheduled_seconds(4, 1, 8, order), (8 + 3) * 3);
  EXPECT_EQ(scheduled_seconds(8, 1, 32, order), 32 * 3 * (1 + .21875));
  EXPECT_EQ(scheduled_seconds(1, 1, 5, order), 15);
}

// m (f + b) (1 + (p - 1) / (v m)): arXiv 2104.04473 §2.2; p = 8, m = 32, v = 2: 0.109375.
TEST(Timeline, OfInterleavedStagesHasTheBubbleDividedByChunks) {
  const StageOrder order = [](std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                              std::int64_t micro_batches) {
    return interleaved_1f1b(stage, stages, chunks, micro_batches);
  };
  EXPECT_EQ(scheduled_seconds(8, 2, 32, order), 32 * 3 * (1 + .109375));
  EXPECT_EQ(scheduled_seconds(4, 4, 8, order), 8 * 3 * (1 + 3.0 / 32));
}

/// Two ranks that reduce what they computed while they compute on.
struct Overlap : testing::Test {
  Job job = job_of({.dp = 2});
  Plan plan = empty_plan(job);
  void SetUp() override {
    ProgramBuilder out(plan);
    out.set_phase(Phase::forward, 0);
    out.compute(out.intern({Gemm{1, 1, 1}}));
    out.set_waiting(Waiting::later);
    out.all_reduce(out.groups.dp, {8}, DType::bf16, k_rule);
    out.set_waiting(Waiting::at_once);
    out.set_phase(Phase::backward, 0);
    out.compute(out.intern({Gemm{1, 1, 1}}));
    add_class(plan, {Rank{0}, Rank{1}}, out.take());
  }
};

TEST_F(Overlap, HidesACallUnderComputing) {
  StepCosts costs = passes_of(plan);
  costs.call = [](const ClassGroup&, OpId) { return k_second; };
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, costs);
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->size(), 1U);
  EXPECT_EQ(end_of(*lines), 3 * k_second);
}

// 2 s of computing, of which the call slows down what runs in its 1 s by a quarter: 0.75 s done, 1.25 s left.
TEST_F(Overlap, SlowsComputingDownWhileACallHoldsProcessors) {
  StepCosts costs = passes_of(plan);
  costs.call = [](const ClassGroup&, OpId) { return k_second; };
  costs.held_share = .25;
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, costs);
  ASSERT_TRUE(lines);
  EXPECT_EQ(end_of(*lines), k_second + k_second + k_second * 5 / 4);
}

TEST_F(Overlap, MovesCallsAtTheSpeedThatLinksLeave) {
  StepCosts costs = passes_of(plan);
  costs.call = [](const ClassGroup&, OpId) { return 2 * k_second; };
  costs.speeds = [](std::span<const MovingCall> calls) { return std::vector<double>(calls.size(), .5); };
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, costs);
  ASSERT_TRUE(lines);
  EXPECT_EQ(end_of(*lines), 5 * k_second);
}

TEST_F(Overlap, FollowsFromOneIterationToTheNext) {
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0, 1, 2}, passes_of(plan));
  ASSERT_TRUE(lines);
  EXPECT_EQ(end_of(*lines), 9 * k_second);
}

TEST_F(Overlap, EndsPlayedCallsWhenTheirPlayerSays) {
  StepCosts costs = passes_of(plan);
  costs.call = [](const ClassGroup&, OpId) { return k_second; };
  std::optional<PlayedCallEnd> end;
  costs.player.begin = [&](std::uint32_t number, const MovingCall&, Ticks now) {
    end = PlayedCallEnd{number, now + 7 * k_second};
    return true;
  };
  costs.player.next_end = [&](Ticks limit) {
    return end && end->when <= limit ? std::exchange(end, std::nullopt) : std::nullopt;
  };
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, costs);
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_EQ(end_of(*lines), 8 * k_second);
}

TEST_F(Overlap, RefusesThatAPlayerEndsWhatItDoesNotMove) {
  StepCosts costs = passes_of(plan);
  costs.call = [](const ClassGroup&, OpId) { return k_second; };
  costs.player.begin = [](std::uint32_t, const MovingCall&, Ticks) { return true; };
  costs.player.next_end = [](Ticks) { return PlayedCallEnd{2'000'000'000, 0}; };
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, costs);
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().message, "a call of the number 2000000000 has ended that was not under way");
}

TEST(Timeline, OfCallsThatNobodyJoinsNamesOne) {
  const Job job = job_of({.dp = 2});
  Plan plan = empty_plan(job);
  ProgramBuilder out(plan);
  add_class(plan, {Rank{0}, Rank{0}}, out.take());
  out.all_reduce(out.groups.dp, {8}, DType::bf16, k_rule, "gradients");
  add_class(plan, {Rank{1}, Rank{1}}, out.take());
  const auto lines = timeline(plan, simulated_ranks(plan, 8, true), {0}, passes_of(plan));
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().message,
            "the plan does not end: rank 1 waits for ever in its all_reduce of axis dp (gradients)");
}

TEST(SimulatedRanks, ThatDoTheSameAreOneClassUnlessTheirGroupsLieOtherwise) {
  const Job job = job_of({.dp = 8});
  Plan plan = empty_plan(job);
  ProgramBuilder out(plan);
  out.all_reduce(out.groups.dp, {8}, DType::bf16, k_rule);
  add_class(plan, {Rank{0}, Rank{7}}, out.take());
  EXPECT_EQ(simulated_ranks(plan, 4, true).classes.size(), 1U);
  EXPECT_EQ(simulated_ranks(plan, 4, false).classes.size(), 8U);
}

// Pairs of neighbours on nodes of 4: ranks 0, 1, 2 and 4, 5, 6 send within theirs, 3 and 7 to the other.
TEST(SimulatedRanks, OfNeighboursDifferAtTheEdgesOfNodes) {
  const Job job = job_of({.pp = 8});
  Plan plan = empty_plan(job);
  ProgramBuilder out(plan);
  out.set_waiting(Waiting::later);
  out.send(out.groups.to_next, {8}, DType::bf16, k_rule);
  out.recv(out.groups.from_previous, {8}, DType::bf16, k_rule);
  add_class(plan, {Rank{0}, Rank{7}}, out.take());
  const SimulatedRanks ranks = simulated_ranks(plan, 4, true);
  ASSERT_EQ(ranks.classes.size(), 4U);  // position in the node
  EXPECT_EQ(ranks.classes[0].count, 2);
  EXPECT_EQ(ranks.classes[0].ranks, (std::vector<RankRange>{{Rank{0}, Rank{4}, 1, 4}}));
  EXPECT_EQ(ranks.classes[3].groups.at(out.groups.to_next).place.nodes, 2);
  EXPECT_EQ(ranks.classes[2].groups.at(out.groups.to_next).place.nodes, 1);
}

}  // namespace
}  // namespace commlens
