#include "commlens/cli/trace_source.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(IterationRange, ReadsOpenAndNegativeRanges) {
  const auto range = [](const char* text) { return iteration_range(text).value().value(); };
  EXPECT_EQ(range("0-9"), (IterationRange{0, 9}));
  EXPECT_EQ(range("3-"), (IterationRange{3, INT32_MAX}));
  EXPECT_EQ(range("-1-2"), (IterationRange{-1, 2}));
  EXPECT_EQ(range("-1-"), (IterationRange{-1, INT32_MAX}));
  EXPECT_EQ(range("-1"), (IterationRange{-1, -1}));
  EXPECT_EQ(range("4"), (IterationRange{4, 4}));
  EXPECT_FALSE(iteration_range("").value().has_value());
}

TEST(IterationRange, RefusesAnythingElse) {
  for (const char* text : {"-", "a", "1-b", "5-2", "-2", "-2-1", "1--3", "99999999999", "1-2-3"}) {
    EXPECT_FALSE(iteration_range(text).has_value()) << text;
  }
}

TEST(NamesTrace, PresetsAndConfigurationsAreNone) {
  EXPECT_FALSE(names_trace("1.3B"));
  EXPECT_FALSE(names_trace("no/such/file"));
  EXPECT_TRUE(names_trace("-"));
  EXPECT_TRUE(names_trace("."));
}

TEST(RanksOfJob, CountsGroupMembersWithoutCallsOfTheirOwn) {
  Trace trace;
  CommOp op;
  op.group = trace.groups.intern(std::vector<Rank>{Rank{0}, Rank{15}});
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{trace.intern(op), 0}}, {}});
  EXPECT_EQ(ranks_of_job(trace), 16);
  EXPECT_EQ(ranks_of_job(Trace(Mesh{2, 3, 4})), 24);
  trace.provenance.job_ranks = 64;
  EXPECT_EQ(ranks_of_job(trace), 64);
}

}  // namespace
}  // namespace commlens
