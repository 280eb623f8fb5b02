#include "commlens/simulate/timeline/account.hpp"

#include <gtest/gtest.h>

#include "commlens/plan/program_builder.hpp"

namespace commlens {
namespace {

const Rule k_account_rule{"test.rule", "here"};

// Computing from 0 to 4, a call along dp moves from 2 to 6, one along tp from 5 to 8. The window is 1 to 10.
TEST(RankAccount, DividesAWindowIntoComputingExposedCallsAndWaiting) {
  Job job;
  job.layout = resolved(ParallelLayout{.dp = 2, .tp = 2}).value();
  Plan plan{.job = job, .tables = Trace(job.layout.mesh())};
  ProgramBuilder out(plan);
  out.compute(out.intern({Gemm{1, 1, 1}}));
  out.set_waiting(Waiting::later);
  out.all_reduce(out.groups.dp, {8}, DType::bf16, k_account_rule);
  out.all_gather(out.groups.tp, {8}, DType::bf16, k_account_rule);
  ClassTimeline line{out.take(), {{0, 0, 4}, {1, 2, 6}, {3, 5, 8}}};
  ASSERT_EQ(line.program.steps.size(), 3U);
  const RankAccount account = rank_account(plan, line, {1, 10});
  EXPECT_EQ(account.compute, 3);  // 1 to 4
  EXPECT_EQ(account.exposed, 4);  // 4 to 8
  EXPECT_EQ(account.waiting, 2);  // 8 to 10
  const RankAccount::Calls& dp = account.calls.at({CommKind::all_reduce, Axis::dp});
  const RankAccount::Calls& tp = account.calls.at({CommKind::all_gather, Axis::tp});
  EXPECT_EQ(dp.calls, 1);
  EXPECT_EQ(dp.moving, 4);
  EXPECT_EQ(dp.exposed, 2);  // 4 to 6: the first counts
  EXPECT_EQ(tp.moving, 3);
  EXPECT_EQ(tp.exposed, 2);  // 6 to 8
}

TEST(RankAccount, LeavesWhatIsOutsideOfTheWindowOut) {
  const TimeWindow window{10, 20};
  EXPECT_EQ(window.part_of(0, 5), 0);
  EXPECT_EQ(window.part_of(5, 12), 2);
  EXPECT_EQ(window.part_of(12, 30), 8);
}

}  // namespace
}  // namespace commlens
