#include "commlens/summary/breakdown.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

CommOp op_of(CommKind kind, GroupId group, std::int64_t input, std::int64_t output) {
  CommOp op;
  op.kind = kind;
  op.dtype = DType::fp16;
  op.phase = Phase::backward;
  op.group = group;
  op.input = Elements{input};
  op.output = Elements{output};
  return op;
}

/// Four ranks of one class: per iteration two all_reduces of 2,000 B and an all_gather of 4,000 B over all of
/// them.
Trace four_data_ranks() {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 4}, {Axis::tp, 1}});
  const GroupId dp =
      trace.groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {.shape = Span::Shape::all}}}});
  const OpId reduce = trace.intern(op_of(CommKind::all_reduce, dp, 1000, 1000));
  const OpId gather = trace.intern(op_of(CommKind::all_gather, dp, 500, 2000));
  RankStream stream{{Rank{0}, Rank{3}}, {}, {}};
  stream.events = {{gather, -1}, {reduce, 0}, {gather, 0}, {reduce, 0},
                   {reduce, 1},  {gather, 1}, {reduce, 1}};
  trace.streams.push_back(stream);
  return trace;
}

TEST(Breakdown, CountsCallsAndBytesOfOneRankPerIteration) {
  const std::vector<BreakdownRow> rows = breakdown(four_data_ranks(), {.iterations = {1}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kind, CommKind::all_reduce);
  EXPECT_EQ(rows[0].axis, Axis::dp);
  EXPECT_EQ(rows[0].group_size, 4);
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].message, Bytes{2000});
  EXPECT_EQ(rows[0].total_message, Bytes{4000});
  EXPECT_EQ(rows[0].wire_per_rank, Bytes{6000});  // 2 * 4000 * 3/4
  EXPECT_EQ(rows[1].kind, CommKind::all_gather);
  EXPECT_EQ(rows[1].message, Bytes{4000});
  EXPECT_EQ(rows[1].wire_per_rank, Bytes{3000});  // 4000 * 3/4
  EXPECT_EQ(aggregate_wire(rows), Bytes{36000});
  const Totals totals = total_per_rank(rows, {Rank{0}, Rank{3}});
  EXPECT_EQ(totals.calls, 3);
  EXPECT_EQ(totals.message, Bytes{8000});
  EXPECT_EQ(totals.wire, Bytes{9000});
}

TEST(Breakdown, AddsUpAllIterationsByDefault) {
  const std::vector<BreakdownRow> rows = breakdown(four_data_ranks(), {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kind, CommKind::all_gather);
  EXPECT_EQ(rows[0].calls, 3);
  EXPECT_EQ(rows[1].calls, 4);
}

TEST(Breakdown, OfOneRankHasItsCallsOnly) {
  const std::vector<BreakdownRow> rows = breakdown(four_data_ranks(), {.iterations = {1}, .rank = Rank{2}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].ranks, (RankRange{Rank{2}, Rank{2}}));
  EXPECT_EQ(aggregate_wire(rows), Bytes{9000});
  EXPECT_TRUE(breakdown(four_data_ranks(), {.rank = Rank{4}}).empty());
}

TEST(Breakdown, SplitsARingBetweenNodes) {
  // Nodes {0 1} {2 3}: of the ring's links 0-1, 1-2, 2-3, 3-0 two leave the node.
  const std::vector<BreakdownRow> rows =
      breakdown(four_data_ranks(), {.iterations = {1}, .ranks_per_node = 2});
  EXPECT_EQ(rows[0].wire_inter_node, Bytes{3000});
  EXPECT_EQ(rows[1].wire_inter_node, Bytes{1500});
  const std::vector<BreakdownRow> one_node =
      breakdown(four_data_ranks(), {.iterations = {1}, .ranks_per_node = 4});
  EXPECT_EQ(one_node[0].wire_inter_node, Bytes{0});
}

TEST(Breakdown, LoggerShowsTheShardAndHidesDirectCalls) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 1}, {Axis::tp, 4}});
  const GroupId tp =
      trace.groups.intern(GroupPattern{.axis = Axis::tp, .spans = {{Axis::tp, {.shape = Span::Shape::all}}}});
  CommOp hidden = op_of(CommKind::all_reduce, tp, 64, 64);
  hidden.rule = trace.intern(Rule{"tp.forward", "neox 4bc66703 mpu/mappings.py:42", true});
  CommOp shown = op_of(CommKind::all_gather, tp, 500, 2000);
  shown.rule = trace.intern(Rule{"checkpoint.gather", "deepspeed 0.14.0 checkpointing.py:294", true});
  const OpId first = trace.intern(hidden);
  const OpId second = trace.intern(shown);
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{first, 0}, {second, 0}, {second, 0}}, {}});
  EXPECT_EQ(breakdown(trace, {}).size(), 2u);
  const std::vector<BreakdownRow> rows = breakdown(trace, {.accounting = Accounting::comms_logger});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].message, Bytes{1000});
  EXPECT_EQ(rows[0].total_message, Bytes{2000});
  EXPECT_EQ(rows[0].wire_per_rank, Bytes{6000});  // of the gathered whole: 2 * 4000 * 3/4
}

TEST(Breakdown, DistinguishesRulesAndTagsOnRequest) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 1}});
  const GroupId dp =
      trace.groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {.shape = Span::Shape::all}}}});
  CommOp op = op_of(CommKind::all_reduce, dp, 8, 8);
  op.tag = trace.tags.intern("layer 0");
  const OpId a = trace.intern(op);
  op.tag = trace.tags.intern("layer 1");
  const OpId b = trace.intern(op);
  op.rule = trace.intern(Rule{"other", "deepspeed", true});
  const OpId c = trace.intern(op);
  trace.streams.push_back({{Rank{0}, Rank{1}}, {{a, 0}, {b, 0}, {c, 0}}, {}});
  EXPECT_EQ(breakdown(trace, {}).size(), 3u);
  EXPECT_EQ(breakdown(trace, {.by_tag = false}).size(), 2u);
  EXPECT_EQ(breakdown(trace, {.by_rule = false}).size(), 1u);
}

TEST(Breakdown, OneRankGroupsHaveNoTraffic) {
  Trace trace;
  const GroupId alone = trace.groups.intern(std::vector<Rank>{Rank{0}});
  const OpId op = trace.intern(op_of(CommKind::all_reduce, alone, 8, 8));
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{op, 0}}, {}});
  const std::vector<BreakdownRow> rows = breakdown(trace, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].no_traffic());
  EXPECT_EQ(rows[0].axis, Axis::self);
  EXPECT_EQ(rows[0].message, Bytes{16});
  EXPECT_EQ(rows[0].wire_per_rank, Bytes{0});
}

}  // namespace
}  // namespace commlens
