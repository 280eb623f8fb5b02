#include "commlens/trace/merge_traces.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

Trace trace_of(std::int64_t rank, const char* tag) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group = trace.groups.intern(std::vector<Rank>{Rank{0}, Rank{1}});
  op.input = Elements{8};
  op.output = Elements{8};
  op.tag = trace.tags.intern(tag);
  trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{trace.intern(op), 0}}, {}});
  trace.provenance.skipped["torn lines"] = 1;
  trace.provenance.assumed["rank"] = 2;
  return trace;
}

TEST(Merged, PutsRanksTogetherInOrder) {
  const Result<Trace> trace = merged({trace_of(1, "b"), trace_of(0, "a")}, {"one", "zero"});
  ASSERT_TRUE(trace.has_value());
  ASSERT_EQ(trace->streams.size(), 2u);
  EXPECT_EQ(trace->streams[0].ranks.first, Rank{0});
  const CommOp& op = trace->op(trace->streams[0].events[0].op);
  EXPECT_EQ(trace->tags.text(op.tag), "a");
  EXPECT_EQ(trace->groups.members(op.group, Rank{0}), (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(trace->provenance.skipped.at("torn lines"), 2);
  EXPECT_EQ(trace->provenance.assumed.at("rank"), 4);
}

TEST(Merged, KeepsWhatOneOfTheFilesSaysOfTheJob) {
  Trace zero = trace_of(0, "a");
  zero.provenance.job_ranks = 16;
  for (std::vector<Trace> traces :
       {std::vector<Trace>{zero, trace_of(1, "b")}, std::vector<Trace>{trace_of(1, "b"), zero}}) {
    const Result<Trace> trace = merged(std::move(traces), {"one", "other"});
    ASSERT_TRUE(trace.has_value());
    EXPECT_EQ(trace->job_ranks(), 16);
    EXPECT_EQ(trace->ranks(), 2);
  }
}

TEST(Merged, RefusesFilesThatStateJobsOfDifferentSizes) {
  Trace one = trace_of(1, "b");
  one.provenance.job_ranks = 16;
  Trace two = trace_of(2, "c");
  two.provenance.job_ranks = 8;
  const Result<Trace> trace = merged({trace_of(0, "a"), one, two}, {"zero", "one", "two"});
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().message, "one and two are of different jobs; import them one by one");
}

TEST(Merged, RefusesAveragesBesideTheTimesOfCalls) {
  Trace one = trace_of(1, "b");
  one.provenance.averaged_times = true;
  const Result<Trace> trace = merged({trace_of(0, "a"), one}, {"zero", "one"});
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().message,
            "zero and one: one has the times of calls, the other averages; import them one by one");
}

Trace with_hidden_group(std::int64_t rank, std::int64_t size, const char* name) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group = trace.groups.intern_hidden(size, name);
  trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{trace.intern(op), 0}}, {}});
  return trace;
}

std::vector<Rank> members_of_first(const Trace& trace) {
  return trace.groups.members(trace.op(trace.streams[0].events[0].op).group, Rank{0});
}

TEST(Merged, NamesTheRanksOfAHiddenGroupOnceAllOfThemAreThere) {
  const Result<Trace> whole =
      merged({with_hidden_group(3, 2, "pg 1"), with_hidden_group(1, 2, "pg 1")}, {"a", "b"});
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(members_of_first(*whole), (std::vector<Rank>{Rank{1}, Rank{3}}));
  EXPECT_EQ(whole->provenance.assumed.at("group whose ranks are taken to be those that called on it"), 1);
  EXPECT_TRUE(whole->provenance.skipped.empty());
}

TEST(Merged, LeavesAHiddenGroupWhoseCallersDisagree) {
  Trace other = with_hidden_group(1, 2, "pg 1");
  other.streams[0].events.push_back(other.streams[0].events[0]);
  const Result<Trace> both = merged({with_hidden_group(3, 2, "pg 1"), other}, {"a", "b"});
  ASSERT_TRUE(both.has_value());
  EXPECT_TRUE(members_of_first(*both).empty());
}

TEST(Merged, LeavesAHiddenGroupWhoseCallersAreNotItsSize) {
  const Result<Trace> part =
      merged({with_hidden_group(3, 4, "pg 1"), with_hidden_group(1, 4, "pg 1")}, {"a", "b"});
  ASSERT_TRUE(part.has_value());
  EXPECT_TRUE(members_of_first(*part).empty());
  EXPECT_EQ(part->groups.size(part->op(part->streams[0].events[0].op).group), 4);
  EXPECT_EQ(part->groups.name(part->op(part->streams[0].events[0].op).group), "pg 1");
  // Two groups of one name: four ranks call on "groups of two".
  const Result<Trace> many = merged({with_hidden_group(0, 2, "tp"), with_hidden_group(1, 2, "tp"),
                                     with_hidden_group(2, 2, "tp"), with_hidden_group(3, 2, "tp")},
                                    {"a", "b", "c", "d"});
  ASSERT_TRUE(many.has_value());
  EXPECT_TRUE(members_of_first(*many).empty());
}

TEST(Merged, RefusesARankTwice) {
  const Result<Trace> trace = merged({trace_of(1, "a"), trace_of(1, "b")}, {"x", "y"});
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().message, "rank 1 is in both x and y; give each rank once");
}

TEST(Merged, RefusesOtherLayouts) {
  Trace other(Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 1}});
  other.streams.push_back({{Rank{0}, Rank{0}}, {}, {}});
  EXPECT_FALSE(merged({trace_of(1, "a"), other}, {"x", "y"}).has_value());
}

}  // namespace
}  // namespace commlens
