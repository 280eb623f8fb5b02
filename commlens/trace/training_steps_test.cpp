#include "commlens/trace/training_steps.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// One rank with a call of 1 ns at each of the given starts.
Trace trace_of(const std::vector<std::pair<Iteration, std::int64_t>>& calls) {
  Trace trace;
  RankStream stream{.ranks = {{0}, {0}}};
  for (const auto& [iteration, start] : calls) {
    stream.events.push_back({.op = trace.intern(CommOp{}), .iteration = iteration});
    stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(start + 1)});
  }
  trace.streams.push_back(std::move(stream));
  return trace;
}

TEST(TrainingIterations, LeaveInitialisationOut) {
  const Trace trace = trace_of({{-1, 0}, {7, 5}, {9, 6}});
  EXPECT_EQ(training_iterations(trace), (std::vector<Iteration>{7, 9}));
  EXPECT_EQ(cold_iteration(trace), 7);
  EXPECT_EQ(cold_iteration(trace_of({{-1, 0}})), INT32_MAX);
}

// 7 is cold, 8 takes 20 - 12, nobody knows when 9 ended, and 11 is the last.
TEST(StepsAfter, GoFromFirstCallToFirstCall) {
  const Trace trace = trace_of({{-1, 0}, {7, 10}, {8, 12}, {8, 15}, {9, 20}, {11, 30}});
  const std::vector<Step> steps = steps_after(7, trace.streams[0]);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].iteration, 8);
  EXPECT_EQ(steps[0].length, nanoseconds(8));
}

TEST(TimeBetween, IsHeld) {
  EXPECT_EQ(time_between(nanoseconds(3), nanoseconds(5)), nanoseconds(2));
  EXPECT_EQ(time_between(nanoseconds(5), nanoseconds(3)), nanoseconds(0));
  EXPECT_EQ(time_between(nanoseconds(INT64_MIN), nanoseconds(INT64_MAX)), nanoseconds(INT64_MAX));
}

}  // namespace
}  // namespace commlens
