// Every plan can run: no rank waits forever if a collective ends once all members have begun it, and a
// message once both sides have.
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/formats/chakra/export.hpp"
#include "commlens/formats/goal/export.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/trace/test_support.hpp"
#include "tests/property/random_jobs.hpp"
#include "tests/simulators/chakra_player.hpp"
#include "tests/simulators/goal_player.hpp"

namespace commlens {
namespace {

/// The steps of all ranks, each begun as soon as it may.
class PlanRun {
 public:
  PlanRun(const Plan& plan, Iteration iteration) : plan_(plan) {
    for (const RankClass& ranks : plan.classes) {
      for (const Rank rank : ranks.ranks) {
        ranks_[rank.value] = {rank, &ranks.at(iteration), {}, {}, {}};
      }
    }
    for (auto& [number, rank] : ranks_) {
      rank.is_done.assign(rank.program->steps.size(), false);
      for (StepIndex at = 0; at < rank.program->steps.size(); ++at) {
        rank.queues[rank.program->steps[at].stream].push_back(at);
      }
    }
  }

  /// The number of steps that never end.
  std::size_t left_waiting() {
    for (bool moves = true; moves;) {
      moves = false;
      for (auto& [number, rank] : ranks_) {
        moves = begin_steps(rank) || moves;
      }
    }
    std::size_t left = 0;
    for (const auto& [number, rank] : ranks_) {
      for (const auto& [stream, queue] : rank.queues) {
        left += queue.size() - rank.next.at(stream);
      }
    }
    return left;
  }

 private:
  /// Members, or source and destination; and which of their calls it is.
  using Meeting = std::tuple<std::vector<std::int64_t>, bool, std::int64_t>;
  struct RankState {
    Rank rank;
    const Program* program = nullptr;
    std::vector<bool> is_done;
    std::map<StreamId, std::vector<StepIndex>> queues;
    std::map<StreamId, std::size_t> next;
    std::map<StepIndex, Meeting> begun;
    std::map<std::tuple<std::vector<std::int64_t>, bool, bool>, std::int64_t> met;
  };

  bool begin_steps(RankState& rank) {
    bool moves = false;
    for (const auto& [stream, queue] : rank.queues) {
      std::size_t& next = rank.next[stream];
      while (next < queue.size() && ends(rank, queue[next])) {
        rank.is_done[queue[next++]] = true;
        moves = true;
      }
    }
    return moves;
  }

  bool ends(RankState& rank, StepIndex at) {
    const PlanStep& step = rank.program->steps[at];
    for (const StepIndex earlier : rank.program->waits_of(step)) {
      if (!rank.is_done[earlier]) {
        return false;
      }
    }
    if (step.kind == PlanStep::Kind::work) {
      return true;
    }
    const CommOp& op = plan_.tables.op(step.op());
    const auto [begun, is_new] = rank.begun.try_emplace(at);
    if (is_new) {
      std::vector<std::int64_t> members;
      for (const Rank member : plan_.tables.groups.members(op.group, rank.rank)) {
        members.push_back(member.value);
      }
      // A rank that sends to itself makes both calls of a pair.
      const bool is_other_end = op.kind == CommKind::recv && members.front() == members.back();
      const bool is_pair = is_point_to_point(op.kind);
      begun->second = {members, is_pair, rank.met[{members, is_pair, is_other_end}]++};
      ++present_[begun->second];
    }
    const std::size_t needed = std::get<0>(begun->second).size();
    return present_[begun->second] == needed;
  }

  const Plan& plan_;
  std::map<std::int64_t, RankState> ranks_;
  std::map<Meeting, std::size_t> present_;
};

TEST(PlanRuns, NoRankWaitsForEver) {
  ASSERT_TRUE(rc::check([] {
    const Plan plan = make_plan(valid_small_job()).value();
    for (const Iteration iteration : {k_init_iteration, Iteration{0}, plan.steady_iteration()}) {
      RC_ASSERT(PlanRun(plan, iteration).left_waiting() == 0U);
    }
  }));
}

TEST(PlanRuns, InterleavedPipelinesDoNotWaitForEver) {
  ASSERT_TRUE(rc::check([] {
    Job job = small_job("megatron");
    job.layout.pp = 4;
    job.layout.virtual_stages = *rc::gen::element<std::int64_t>(2, 3);
    job.train.schedule = Schedule::interleaved;
    job.model.layers = job.layout.pp * job.layout.virtual_stages;
    job.train.micro_batches = 4 * *rc::gen::inRange<std::int64_t>(1, 4);
    megatron::options(job).overlap_grad_reduce = *rc::gen::arbitrary<bool>();
    const Plan plan = make_plan(validated(job).value()).value();
    RC_ASSERT(PlanRun(plan, 0).left_waiting() == 0U);
  }));
}

TEST(PlanRuns, TheTrainersSchedulesDoNotWaitForEver) {
  ASSERT_TRUE(rc::check([] {
    Job job = small_job("commlens");
    job.layout.pp = *rc::gen::element<std::int64_t>(2, 4);
    job.train.schedule = *rc::gen::element(Schedule::gpipe, Schedule::one_f_one_b);
    job.train.zero_stage = *rc::gen::inRange(0, 4);
    const Result<Job> valid = validated(job);
    RC_PRE(valid.has_value());
    const Result<Plan> plan = make_plan(*valid);
    RC_PRE(plan.has_value());
    RC_ASSERT(PlanRun(*plan, 0).left_waiting() == 0U);
  }));
}

/// The plan's steps and waits in the files for simulators, run as these do.
void expect_simulators_end(const Plan& plan) {
  const std::vector<Iteration> iterations = {k_init_iteration, 0};
  const Trace trace = plan.trace_of(iterations);
  const StepOrder order = plan.order_of(iterations);
  const formats::CallSelection with_order{.order = &order};
  std::string goal;
  RC_ASSERT(
      formats::goal::write(trace, with_order, [&](std::string_view block) { goal += block; }).has_value());
  const test::PlayedGoal played = test::play_goal(goal, {.eager = 0});
  RC_LOG() << plan.job.framework << " " << played.text() << "\n" << goal.substr(0, 3000);
  RC_ASSERT(played.is_complete());
  const test_support::ScratchDirectory directory;
  RC_ASSERT(formats::chakra::write(trace, with_order, directory / ".").has_value());
  const test::PlayedChakra in_chakra = test::play_chakra(directory / ".");
  RC_ASSERT(in_chakra.is_complete());
  RC_ASSERT(in_chakra.nodes > 0);
}

TEST(PlanRuns, SimulatorsComeToTheEndOfExportedPlans) {
  ASSERT_TRUE(rc::check([] {
    Job job = small_job(*rc::gen::element<std::string>("deepspeed", "neox", "megatron", "torch-ddp"));
    job.train.micro_batches = *rc::gen::inRange<std::int64_t>(1, 4);
    job.layout.dp = *rc::gen::inRange<std::int64_t>(1, 3);
    expect_simulators_end(make_plan(validated(job).value()).value());
  }));
}

}  // namespace
}  // namespace commlens
