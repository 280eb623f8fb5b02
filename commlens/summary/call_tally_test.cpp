#include "commlens/summary/call_tally.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(CallTally, HoldsForAnIterationTheRowsThatItHas) {
  // Three calls, each of its own name in its own iteration: three rows, not three times three.
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  for (const Iteration iteration : {0, 1, 2}) {
    CommOp op;
    op.kind = CommKind::other;
    op.group = trace.groups.intern({Rank{0}, Rank{1}});
    op.name = trace.names.intern(std::to_string(iteration));
    trace.streams[0].events.push_back({trace.intern(op), iteration});
  }
  CallTally tally({.by_iteration = true});
  visit_calls(trace, [&](const CallBlock& block) { tally.add(block); });
  tally.finish(trace);
  EXPECT_EQ(tally.keys().size(), 3U);
  EXPECT_EQ(tally.slices().size(), 3U);
  for (const auto& [slice, rows] : tally.slices()) {
    ASSERT_EQ(rows.size(), 1U) << *slice.iteration;
    EXPECT_EQ(rows.begin()->second.calls, 1) << *slice.iteration;
  }
}

}  // namespace
}  // namespace commlens
