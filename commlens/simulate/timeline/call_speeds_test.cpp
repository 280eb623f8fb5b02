#include "commlens/simulate/timeline/call_speeds.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "commlens/base/modules.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/plan/program_builder.hpp"
#include "commlens/simulate/timeline/simgrid_calls.hpp"

namespace commlens {
namespace {

const Rule k_ring_rule{"test.rule", "here"};
constexpr Ticks k_one_second = 1'000'000'000'000;

/// Nodes of one rank with a NIC of 50 GB/s, two on a leaf whose uplink has 100 / `oversubscription` GB/s.
Machine narrow_tree(double oversubscription) {
  Machine machine = find_machine("vista_gh200").value();
  machine.out.shape = {{"nodes per leaf", Quantity{.value = 2}},
                       {"oversubscription", Quantity{.value = oversubscription}}};
  return machine;
}

enum class Along : std::uint8_t { tp, dp };

/// Four ranks on two leaves, of which those of each group, {0, 1} and {2, 3} along tp, {0, 2} and {1, 3}
/// along dp, reduce at the same time: in the one second that this takes alone each sends `gigabytes` to the
/// other.
struct TwoGroups {
  Plan plan;
  Topology topology;
  SimulatedRanks ranks;

  TwoGroups(Along along, double oversubscription, std::int64_t gigabytes, bool collapse = true)
      : plan(plan_of_groups(along, gigabytes)),
        topology(Topology::of(narrow_tree(oversubscription), 4).value()),
        ranks(simulated_ranks(plan, 1, collapse, &topology)) {}

  static Plan plan_of_groups(Along along, std::int64_t gigabytes) {
    Job job;
    job.layout = resolved(ParallelLayout{.dp = 2, .tp = 2}).value();
    Plan plan{.job = job, .tables = Trace(job.layout.mesh())};
    ProgramBuilder out(plan);
    out.all_reduce(along == Along::tp ? out.groups.tp : out.groups.dp, {gigabytes * 500'000'000}, DType::bf16,
                   k_ring_rule);
    RankClass& all = plan.classes.emplace_back();
    all.ranks = {Rank{0}, Rank{3}};
    all.iterations = {out.take()};
    return plan;
  }

  static StepCosts costs() {
    StepCosts costs;
    costs.work = [](const SimulatedClass&, WorkId) { return Ticks{0}; };
    costs.call = [](const ClassGroup&, OpId) { return k_one_second; };
    return costs;
  }

  Ticks end(const StepCosts& costs) const {
    const auto lines = timeline(plan, ranks, {0}, costs);
    Ticks last = 0;
    for (const ClassTimeline& line : lines.value()) {
      last = std::max(last, line.times.back().finished);
    }
    return last;
  }

  double seconds() const {
    CallSpeeds speeds(topology, plan, ranks);
    StepCosts shared = costs();
    shared.speeds = [&](std::span<const MovingCall> calls) { return speeds.of(calls); };
    return static_cast<double>(end(shared)) / k_ticks_per_second;
  }
};

TEST(CallSpeeds, OfGroupsThatShareAnOversubscribedUplinkAreHalved) {
  EXPECT_EQ(TwoGroups(Along::dp, 2, 50).seconds(), 2);
}

TEST(CallSpeeds, OfGroupsWithoutACommonLinkAreFull) { EXPECT_EQ(TwoGroups(Along::tp, 2, 50).seconds(), 1); }

TEST(CallSpeeds, AreFullWhereTheUplinkCarriesAll) {
  EXPECT_EQ(TwoGroups(Along::dp, 1, 50).seconds(), 1);
  EXPECT_EQ(TwoGroups(Along::dp, 2, 25).seconds(), 1);
}

// 2 × 40 GB/s over an uplink of 25: 3.2 times as long. Times of calls know nothing of uplinks.
TEST(CallSpeeds, WaitForUplinksThatOneCallAloneWouldFill) {
  EXPECT_NEAR(TwoGroups(Along::dp, 4, 40).seconds(), 3.2, 1e-6);
}

// A NIC of 50 GB/s that a call needs 60 of: its time knows that, and the uplink carries what comes through.
TEST(CallSpeeds, OfACallThatFillsItsNicAreFull) { EXPECT_EQ(TwoGroups(Along::tp, 2, 60).seconds(), 1); }

TEST(CallSpeeds, AreThoseOfAllRanksWhereOneStandsForAll) {
  const TwoGroups once(Along::dp, 2, 50);
  const TwoGroups all(Along::dp, 2, 50, false);
  EXPECT_EQ(once.ranks.classes.size(), 1U);
  EXPECT_EQ(once.ranks.channels.size(), 1U);
  EXPECT_EQ(once.ranks.channels[0].groups.size(), 2U);
  EXPECT_EQ(all.ranks.classes.size(), 4U);
  EXPECT_EQ(all.ranks.channels.size(), 2U);
  EXPECT_EQ(all.seconds(), 2);
}

TEST(SimgridCalls, EndWhenOursEnd) {
  if (!module_file("libcommlens-simgrid.so")) {
    GTEST_SKIP() << "built without SimGrid";
  }
  for (const auto& [along, gigabytes, seconds] :
       {std::tuple(Along::dp, 50, 2.0), std::tuple(Along::tp, 50, 1.0), std::tuple(Along::dp, 40, 1.6)}) {
    const TwoGroups groups(along, 2, gigabytes);
    auto calls = SimgridCalls::start(groups.topology, groups.plan, groups.ranks);
    ASSERT_TRUE(calls) << calls.error().message;
    StepCosts played = TwoGroups::costs();
    played.player = (*calls)->player();
    EXPECT_NEAR(static_cast<double>(groups.end(played)) / k_ticks_per_second, seconds, 1e-3 * seconds);
    EXPECT_NEAR(groups.seconds(), seconds, 1e-3 * seconds);
  }
}

}  // namespace
}  // namespace commlens
