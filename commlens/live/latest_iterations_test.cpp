#include "commlens/live/latest_iterations.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

CommEvent event(std::uint32_t op, Iteration iteration) { return {.op = OpId{op}, .iteration = iteration}; }

/// The ops of an iteration; 99 where it is not known.
std::vector<std::uint32_t> ops(const LatestIterations& calls, Iteration iteration) {
  const auto known = calls.of(iteration);
  std::vector<std::uint32_t> found;
  for (const CommEvent& each : known ? known->events : std::vector{event(99, iteration)}) {
    found.push_back(static_cast<std::uint32_t>(each.op));
  }
  return found;
}

using Ops = std::vector<std::uint32_t>;

TEST(LatestIterations, AreThoseOfTheLatestFour) {
  LatestIterations calls;
  calls.add(0, event(9, -1), {});  // before the first
  for (std::uint32_t slot = 1; slot <= 6; ++slot) {
    calls.add(slot, event(slot, static_cast<Iteration>(slot)), {});
  }
  EXPECT_EQ(ops(calls, 2), Ops{99});
  EXPECT_EQ(ops(calls, 3), Ops{3});
  EXPECT_EQ(ops(calls, 6), Ops{6});
  EXPECT_EQ(ops(calls, 7), Ops{});
  calls.add(7, event(7, 2), {});  // too late
  EXPECT_EQ(ops(calls, 2), Ops{99});
  EXPECT_EQ(ops(calls, 3), Ops{3});
}

TEST(LatestIterations, HaveTimesWhereAllOfThemDo) {
  using std::chrono::nanoseconds;
  const Times first{nanoseconds(1), nanoseconds(2), nanoseconds(9)};
  const Times second{nanoseconds(3), nanoseconds(4), nanoseconds(7)};
  LatestIterations calls;
  calls.add(0, event(0, 1), first);
  calls.add(1, event(1, 1), {});
  EXPECT_TRUE(calls.of(1)->times.empty());
  calls.finish(1, 1, OpId{1}, second);
  EXPECT_EQ(calls.of(1)->times, (std::vector{first, second}));
}

TEST(LatestIterations, OfTwoThreadsStayApart) {
  LatestIterations calls;
  calls.add(0, event(0, 1), {});
  calls.add(1, event(1, 2), {});
  calls.add(2, event(2, 1), {});
  calls.add(3, event(3, 2), {});
  EXPECT_EQ(ops(calls, 1), (Ops{0, 2}));
  EXPECT_EQ(ops(calls, 2), (Ops{1, 3}));
  EXPECT_EQ(ops(calls, 0), Ops{});
}

TEST(LatestIterations, MayTurnOutToBeOthersOrNone) {
  LatestIterations calls;
  calls.add(4, event(0, 1), {});
  calls.add(6, event(1, 1), {});
  calls.add(9, event(2, 1), {});
  calls.finish(1, 6, OpId{7}, {});
  calls.withdraw(1, 4);
  calls.finish(1, 5, OpId{8}, {});  // there is none
  calls.withdraw(3, 9);             // of another iteration
  EXPECT_EQ(ops(calls, 1), (Ops{7, 2}));
}

TEST(LatestIterations, AreNotWholeWhereSomeWereLost) {
  LatestIterations calls;
  calls.add(0, event(0, 1), {});
  calls.add(1, event(1, 2), {});
  calls.lose();  // of iteration 2, 3, 4 or 5
  EXPECT_EQ(ops(calls, 1), Ops{0});
  EXPECT_EQ(ops(calls, 2), Ops{99});
  EXPECT_EQ(ops(calls, 5), Ops{99});
  calls.add(3, event(3, 5), {});
  calls.add(4, event(4, 6), {});
  EXPECT_EQ(ops(calls, 2), Ops{99});
  EXPECT_EQ(ops(calls, 4), Ops{99});
  EXPECT_EQ(ops(calls, 5), Ops{99});
  EXPECT_EQ(ops(calls, 6), Ops{4});
}

TEST(LatestIterations, AreNotWholeFromWhereSomeWereLost) {
  LatestIterations calls;
  for (std::uint32_t slot = 1; slot <= 4; ++slot) {
    calls.add(slot, event(slot, static_cast<Iteration>(slot)), {});
  }
  calls.lose_from(3);
  EXPECT_EQ(ops(calls, 2), Ops{2});
  EXPECT_EQ(ops(calls, 3), Ops{99});
  EXPECT_EQ(ops(calls, 4), Ops{99});
  calls.finish(4, 4, OpId{7}, {});  // nothing of it is kept
  EXPECT_EQ(ops(calls, 4), Ops{99});
}

TEST(LatestIterations, OfAProgramThatMarksNoneAreItsLatest) {
  LatestIterations calls;
  const auto outside = [&] {
    Ops found;
    for (const CommEvent& each : calls.outside()) {
      found.push_back(static_cast<std::uint32_t>(each.op));
    }
    return found;
  };
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    calls.add(slot, event(slot, -1), {});
  }
  calls.finish(-1, 2, OpId{7}, {});
  calls.withdraw(-1, 1);
  EXPECT_EQ(outside(), (Ops{0, 7, 3}));
  calls.lose();
  calls.add(5, event(5, -1), {});
  EXPECT_EQ(outside(), Ops{5});
  for (std::uint32_t slot = 6; slot <= LatestIterations::k_most_outside + 5; ++slot) {
    calls.add(slot, event(slot, -1), {});
  }
  EXPECT_EQ(outside().size(), LatestIterations::k_most_outside);
  EXPECT_EQ(outside().front(), 6U);
  calls.add(99'999, event(1, 0), {});  // it marks some
  EXPECT_EQ(outside(), Ops{});
}

TEST(LatestIterations, AreNotKeptWhereThereAreTooMany) {
  LatestIterations calls;
  for (std::uint32_t slot = 0; slot < LatestIterations::k_most_calls; ++slot) {
    calls.add(slot, event(1, 1), {});
  }
  EXPECT_EQ(calls.of(1).value().events.size(), LatestIterations::k_most_calls);
  calls.add(LatestIterations::k_most_calls, event(1, 1), {});
  EXPECT_EQ(ops(calls, 1), Ops{99});
}

}  // namespace
}  // namespace commlens
