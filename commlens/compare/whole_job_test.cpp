#include "commlens/compare/whole_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace commlens {
namespace {

struct ViewedCall {
  std::int64_t rank = 0;
  CommKind kind = CommKind::all_reduce;
  std::vector<Rank> group = {Rank{0}, Rank{1}};
  std::int64_t bytes = 0;
  std::int64_t rounding = 0;
  Match match = Match::exact;
};

/// Calls of ranks 0 and 1, one iteration after the other; or of unknown iterations.
class JobView {
 public:
  JobView() {
    for (const std::int64_t rank : {0, 1}) {
      trace_.streams.push_back({{Rank{rank}, Rank{rank}}, {}, {}, {}});
    }
  }
  void add(const ViewedCall& call, Iteration iteration = k_unknown_iteration) {
    add(call, trace_.groups.intern(call.group), iteration);
  }
  /// On a group of which only the size is known.
  void add_hidden(const ViewedCall& call, std::int64_t size) {
    add(call, trace_.groups.intern_hidden(size, "0xa"), k_unknown_iteration);
  }
  const Trace& trace() const { return trace_; }

 private:
  void add(const ViewedCall& call, GroupId group, Iteration iteration) {
    CommOp op;
    op.kind = call.kind;
    op.group = group;
    op.dtype = iteration == k_unknown_iteration ? DType::uint8 : DType::fp32;
    op.input = op.output = Elements{iteration == k_unknown_iteration ? call.bytes : call.bytes / 4};
    op.rounding = Bytes{call.rounding};
    op.match = call.match;
    trace_.streams[static_cast<std::size_t>(call.rank)].events.push_back({trace_.intern(op), iteration});
  }
  Trace trace_;
};

WholeJobComparison compared(const JobView& a, const JobView& b, const CompareOptions& options = {}) {
  const Result<WholeJobComparison> result = compare_whole_job(a.trace(), b.trace(), options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or(WholeJobComparison());
}

/// "all_reduce x2 8 B: 3 3 3": op, group, message, calls of A, of B, equal ones.
std::vector<std::string> rows_of(const WholeJobComparison& comparison) {
  std::vector<std::string> rows;
  for (const WholeJobRow& row : comparison.rows) {
    rows.push_back(fmt::format("{} x{} {} B: {} {} {}", name_of(row.kind), row.group_size, row.message.value,
                               row.calls_a, row.calls_b, row.exact));
  }
  return rows;
}
using Rows = std::vector<std::string>;

TEST(CompareWholeJob, AddsUpIterationsAndIgnoresElementTypes) {
  JobView a;
  JobView b;
  for (const Iteration iteration : {-1, 0, 1}) {
    a.add({.bytes = 8}, iteration);
    a.add({.rank = 1, .bytes = 8}, iteration);
    b.add({.bytes = 8});
    b.add({.rank = 1, .bytes = 8});
  }
  EXPECT_TRUE(one_lacks_iterations(a.trace(), b.trace()));
  EXPECT_TRUE(one_lacks_iterations(b.trace(), a.trace()));
  EXPECT_FALSE(one_lacks_iterations(a.trace(), a.trace()));
  EXPECT_FALSE(one_lacks_iterations(a.trace(), JobView().trace())) << "no calls, no iterations needed";
  const WholeJobComparison comparison = compared(a, b);
  EXPECT_TRUE(comparison.equal());
  EXPECT_TRUE(comparison.b_lacks_iterations);
  EXPECT_EQ(comparison.iterations, (std::vector<Iteration>{-1, 0, 1}));
  EXPECT_EQ(rows_of(comparison), Rows{"all_reduce x2 8 B: 6 6 6"});
  EXPECT_FALSE(compared(b, a).b_lacks_iterations);
}

TEST(CompareWholeJob, CountsPerRank) {
  // Two calls on both sides, but of other ranks.
  JobView a;
  JobView b;
  a.add({.bytes = 8}, 0);
  a.add({.bytes = 8}, 1);
  a.add({.rank = 1, .bytes = 16}, 1);
  b.add({.bytes = 8});
  b.add({.rank = 1, .bytes = 8});
  b.add({.rank = 1, .bytes = 16});
  const WholeJobComparison comparison = compared(a, b);
  EXPECT_FALSE(comparison.equal());
  EXPECT_EQ(comparison.exact, 2);
  EXPECT_EQ(rows_of(comparison), (Rows{"all_reduce x2 8 B: 2 2 1", "all_reduce x2 16 B: 1 1 1"}));
}

TEST(CompareWholeJob, TakesOnlyTheRequestedIterations) {
  JobView a;
  JobView b;
  for (Iteration iteration = 0; iteration < 5; ++iteration) {
    a.add({.bytes = 8}, iteration);
  }
  b.add({.bytes = 8});
  b.add({.bytes = 8});
  EXPECT_EQ(rows_of(compared(a, b)), Rows{"all_reduce x2 8 B: 5 2 2"});
  EXPECT_TRUE(compared(a, b, {.iterations = {{1, 2}}}).equal());
  const Result<WholeJobComparison> none = compare_whole_job(a.trace(), b.trace(), {.iterations = {{7, 9}}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no requested iteration is in A: it has 0 to 4; change --iteration");
}

TEST(CompareWholeJob, ComparesGroupsByWhatBothSidesReport) {
  JobView a;
  a.add({.group = {Rank{0}, Rank{1}}, .bytes = 8}, 0);
  a.add({.kind = CommKind::send, .group = {Rank{0}, Rank{1}}, .bytes = 4}, 0);
  JobView members;
  members.add({.group = {Rank{1}, Rank{0}}, .bytes = 8});
  members.add({.kind = CommKind::send, .group = {Rank{1}, Rank{0}}, .bytes = 4});
  const WholeJobComparison by_members = compared(a, members);
  EXPECT_EQ(by_members.collectives, GroupDetail::members);
  EXPECT_EQ(rows_of(by_members), (Rows{"send x2 4 B: 1 1 0", "all_reduce x2 8 B: 1 1 1"}))
      << "a message has a direction";

  JobView sizes;
  sizes.add_hidden({.bytes = 8}, 2);
  sizes.add_hidden({.kind = CommKind::send, .bytes = 4}, 2);
  const WholeJobComparison by_size = compared(a, sizes);
  EXPECT_TRUE(by_size.equal());
  EXPECT_EQ(by_size.collectives, GroupDetail::size);
  EXPECT_EQ(by_size.messages, GroupDetail::size);
  JobView others;
  others.add_hidden({.bytes = 8}, 4);
  EXPECT_EQ(rows_of(compared(a, others)),
            (Rows{"all_reduce x2 8 B: 1 0 0", "all_reduce x4 8 B: 0 1 0", "send x2 4 B: 1 0 0"}));

  JobView nothing;
  nothing.add({.group = {}, .bytes = 8});
  nothing.add({.kind = CommKind::send, .group = {Rank{0}, Rank{1}}, .bytes = 4});
  const WholeJobComparison incomplete = compared(a, nothing);
  EXPECT_TRUE(incomplete.equal());
  EXPECT_EQ(incomplete.collectives, GroupDetail::nothing);
  EXPECT_EQ(incomplete.messages, GroupDetail::members);
}

TEST(CompareWholeJob, TakesRoundedSizesForAnyWithinThem) {
  // Of 6 and 8 ± 2 bytes each may be one of 4 and 8; of 20 ± 1 neither is.
  JobView a;
  JobView b;
  a.add({.bytes = 4}, 0);
  a.add({.bytes = 8}, 0);
  b.add({.bytes = 6, .rounding = 2});
  b.add({.bytes = 8, .rounding = 2});
  EXPECT_TRUE(compared(a, b).equal());
  b.add({.bytes = 20, .rounding = 1});
  EXPECT_EQ(rows_of(compared(a, b)),
            (Rows{"all_reduce x2 20 B: 0 1 0", "all_reduce x2 8 B: 1 1 1", "all_reduce x2 4 B: 1 1 1"}));
  JobView routed;
  routed.add({.bytes = 400, .match = Match::count});
  routed.add({.bytes = 8});
  EXPECT_TRUE(compared(a, routed).equal());
}

TEST(CompareWholeJob, LeavesBarriersAndIgnoredOpsOut) {
  JobView a;
  JobView b;
  a.add({.bytes = 8}, 0);
  a.add({.kind = CommKind::barrier}, 0);
  b.add({.bytes = 8});
  b.add({.kind = CommKind::broadcast, .bytes = 8});
  const WholeJobComparison comparison = compared(a, b, {.ignored = {CommKind::broadcast}});
  EXPECT_TRUE(comparison.equal());
  EXPECT_EQ(comparison.ignored, 2);
}

}  // namespace
}  // namespace commlens
