#include "commlens/compare/compare.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr Span k_all{Span::Shape::all};

struct Call {
  CommKind kind = CommKind::all_reduce;
  std::int64_t elements = 0;
  Iteration iteration = 0;
  Match match = Match::exact;
  DType dtype = DType::fp32;
  Reduction reduction = Reduction::unknown;
};

CommOp op_of(const Call& call, GroupId group) {
  CommOp op;
  op.kind = call.kind;
  op.dtype = call.dtype;
  op.group = group;
  op.input = Elements{call.elements};
  op.output = Elements{call.elements};
  op.match = call.match;
  op.reduction = call.reduction;
  return op;
}

/// `ranks` recorded ranks, each with a stream of its own, all calls over an explicit group of all of them.
Trace recorded(std::int64_t ranks, const std::vector<Call>& calls) {
  Trace trace;
  std::vector<Rank> members;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    members.push_back(Rank{rank});
  }
  const GroupId all = trace.groups.intern(members);
  for (const Rank rank : members) {
    RankStream stream{{rank, rank}, {}, {}};
    for (const Call& call : calls) {
      stream.events.push_back({trace.intern(op_of(call, all)), call.iteration});
    }
    trace.streams.push_back(stream);
  }
  return trace;
}

/// The same as one class of data-parallel ranks.
Trace predicted(std::int64_t ranks, const std::vector<Call>& calls) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, ranks}, {Axis::tp, 1}});
  const GroupId dp = trace.groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, k_all}}});
  RankStream stream{{Rank{0}, Rank{ranks - 1}}, {}, {}};
  for (const Call& call : calls) {
    CommOp op = op_of(call, dp);
    op.rule = trace.intern(Rule{"gradient", "deepspeed 0.14.0 engine.py:1", true});
    stream.events.push_back({trace.intern(op), call.iteration});
  }
  trace.streams.push_back(stream);
  return trace;
}

Comparison must_compare(const Trace& a, const Trace& b, const CompareOptions& options = {}) {
  Result<Comparison> result = compare(a, b, options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result.value_or(Comparison{});
}

Call reducing(std::int64_t elements, Reduction reduction) {
  return {.kind = CommKind::all_reduce, .elements = elements, .reduction = reduction};
}

/// Of three calls of a size one has another reduce op; calls of which one side does not know it never differ.
TEST(Compare, ListsReduceOpsApart) {
  const Trace a = predicted(4, {reducing(10, Reduction::avg), reducing(10, Reduction::avg),
                                reducing(10, Reduction::sum), reducing(20, Reduction::max)});
  const Trace b = recorded(4, {reducing(10, Reduction::sum), reducing(10, Reduction::avg),
                               reducing(10, Reduction::premul_sum), reducing(20, Reduction::unknown)});
  const Comparison result = must_compare(a, b);
  EXPECT_TRUE(result.equal());
  ASSERT_EQ(result.reduce_ops.size(), 1U);
  EXPECT_EQ(result.reduce_ops[0].a, Reduction::avg);
  EXPECT_EQ(result.reduce_ops[0].b, Reduction::premul_sum);
  EXPECT_EQ(result.reduce_ops[0].calls, 4);
  EXPECT_EQ(result.other_reduce_op(), 4);
}

TEST(Compare, ClassStreamsEqualRecordedRanks) {
  const std::vector<Call> calls = {
      {CommKind::all_reduce, 10}, {CommKind::broadcast, 3}, {CommKind::all_reduce, 10, 1}};
  const Comparison result = must_compare(predicted(4, calls), recorded(4, calls));
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.exact, 12);
  EXPECT_EQ(result.calls_a, 12);
  EXPECT_EQ(result.calls_b, 12);
  EXPECT_EQ(result.ranks, 4);
  EXPECT_EQ(result.iterations, (std::vector<Iteration>{0, 1}));
  EXPECT_EQ(result.order_differs, 0);
}

TEST(Compare, CountsMultiplicity) {
  const Comparison result =
      must_compare(predicted(2, {{CommKind::all_reduce, 10}, {CommKind::all_reduce, 10}}),
                   recorded(2, {{CommKind::all_reduce, 10}}));
  EXPECT_FALSE(result.equal());
  EXPECT_EQ(result.exact, 2);
  EXPECT_EQ(result.missing, 2);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].verdict, Verdict::missing);
  EXPECT_EQ(result.differences[0].axis, Axis::dp);
  EXPECT_EQ(result.differences[0].calls, 2);
  EXPECT_EQ(result.differences[0].ranks, 2);
  EXPECT_EQ(result.differences[0].rule.name, "gradient");
  EXPECT_FALSE(result.differences[0].b.has_value());
}

TEST(Compare, PairsLeftoversOfOneGroupAsSizeDifferences) {
  const Comparison result = must_compare(
      recorded(1, {{CommKind::all_reduce, 1}, {CommKind::all_reduce, 2}, {CommKind::all_reduce, 3}}),
      recorded(1, {{CommKind::all_reduce, 2}, {CommKind::all_reduce, 7}, {CommKind::reduce, 3}}));
  // 2 equals 2; in issue order 1 pairs with 7; 3 is missing and the reduce is extra.
  EXPECT_EQ(result.exact, 1);
  EXPECT_EQ(result.size, 1);
  EXPECT_EQ(result.missing, 1);
  EXPECT_EQ(result.extra, 1);
  ASSERT_EQ(result.differences.size(), 3u);
  EXPECT_EQ(result.differences[0].verdict, Verdict::size);  // |1 - 7| * 4 bytes is the most
  EXPECT_EQ(result.differences[0].a->input, Elements{1});
  EXPECT_EQ(result.differences[0].b->input, Elements{7});
}

TEST(Compare, AnotherTypeOfTheSameBytesIsASizeDifference) {
  const Comparison result =
      must_compare(recorded(1, {{CommKind::all_reduce, 4, 0, Match::exact, DType::fp32}}),
                   recorded(1, {{CommKind::all_reduce, 8, 0, Match::exact, DType::fp16}}));
  EXPECT_EQ(result.size, 1);
}

// Iteration 0 leaves a call of 7 elements and one of a routed size in A; neither occurs in iteration 1, which
// has one extra call of 9 elements in B, nor in iteration 2, which is equal.
TEST(Compare, WhatOneIterationLeavesIsNotInTheNext) {
  const Comparison comparison = must_compare(recorded(1, {{CommKind::all_reduce, 7, 0},
                                                          {CommKind::all_to_all, 5, 0, Match::count},
                                                          {CommKind::all_reduce, 8, 1},
                                                          {CommKind::all_reduce, 7, 2}}),
                                             recorded(1, {{CommKind::broadcast, 3, 0},
                                                          {CommKind::all_reduce, 8, 1},
                                                          {CommKind::all_reduce, 9, 1},
                                                          {CommKind::all_reduce, 7, 2}}));
  EXPECT_EQ(comparison.exact, 2);
  EXPECT_EQ(comparison.size, 0);
  EXPECT_EQ(comparison.missing, 2);
  EXPECT_EQ(comparison.extra, 2);
}

TEST(Compare, DataDependentCallsMatchOnCount) {
  const std::vector<Call> expected = {{CommKind::all_to_all, 100, 0, Match::count},
                                      {CommKind::all_to_all, 100, 0, Match::count}};
  const std::vector<Call> real = {{CommKind::all_to_all, 90}, {CommKind::all_to_all, 130}};
  EXPECT_TRUE(must_compare(predicted(2, expected), recorded(2, real)).equal());
  EXPECT_TRUE(must_compare(recorded(2, real), predicted(2, expected)).equal());
  EXPECT_TRUE(must_compare(predicted(2, expected), predicted(2, expected)).equal());
  const Comparison fewer = must_compare(predicted(2, expected), recorded(2, {{CommKind::all_to_all, 90}}));
  EXPECT_EQ(fewer.exact, 2);
  EXPECT_EQ(fewer.missing, 2);
}

// 2 ranks, 2 calls of fp32: expected 4 x 100 x 4 bytes; the one recording has 2 x (90 + 130) x 4 of them,
// which is 1 / 11 more, the other 2 x (95 + 105) x 4, the same.
TEST(Compare, SaysWhereTheMeanSizesOfCallsByCountAreApart) {
  const std::vector<Call> expected = {{CommKind::all_to_all, 100, 0, Match::count},
                                      {CommKind::all_to_all, 100, 0, Match::count}};
  const Comparison apart = must_compare(
      predicted(2, expected), recorded(2, {{CommKind::all_to_all, 90}, {CommKind::all_to_all, 130}}));
  ASSERT_EQ(apart.counted_sizes.size(), 1U);
  const CountedSizes& sizes = apart.counted_sizes.front();
  EXPECT_EQ(sizes.kind, CommKind::all_to_all);
  EXPECT_EQ(sizes.axis, Axis::dp);
  EXPECT_EQ(sizes.group_size, 2);
  EXPECT_EQ(sizes.calls, 4);
  EXPECT_EQ(sizes.message_a, Bytes{1600});
  EXPECT_EQ(sizes.message_b, Bytes{1760});
  EXPECT_TRUE(sizes.are_apart());
  EXPECT_TRUE(apart.equal());
  const Comparison alike = must_compare(
      predicted(2, expected), recorded(2, {{CommKind::all_to_all, 95}, {CommKind::all_to_all, 105}}));
  ASSERT_EQ(alike.counted_sizes.size(), 1U);
  EXPECT_FALSE(alike.counted_sizes.front().are_apart());
  EXPECT_TRUE(
      must_compare(recorded(1, {{CommKind::all_to_all, 90}}), recorded(1, {{CommKind::all_to_all, 90}}))
          .counted_sizes.empty());
}

TEST(Compare, CallsByCountHaveTheSameElementType) {
  const Trace a = predicted(1, {{CommKind::all_to_all, 100, 0, Match::count, DType::fp16},
                                {CommKind::all_to_all, 100, 0, Match::count, DType::fp32}});
  EXPECT_TRUE(must_compare(a, recorded(1, {{CommKind::all_to_all, 9, 0, Match::exact, DType::fp32},
                                           {CommKind::all_to_all, 7, 0, Match::exact, DType::fp16}}))
                  .equal());
  const Comparison other =
      must_compare(a, recorded(1, {{CommKind::all_to_all, 9, 0, Match::exact, DType::fp32},
                                   {CommKind::all_to_all, 9, 0, Match::exact, DType::fp32}}));
  EXPECT_EQ(other.exact, 1);
  EXPECT_EQ(other.size, 1);
}

/// What one side has more is what the other one has not: here the small ones.
TEST(Compare, CallsByCountThatAreLeftHaveTheSizesThatAreMissing) {
  const Call large{CommKind::all_to_all, 1'000'000, 0, Match::count};
  const Call small{CommKind::all_to_all, 10, 0, Match::count};
  const Comparison more =
      must_compare(predicted(1, {large, large}), predicted(1, {small, large, small, large}));
  EXPECT_EQ(more.exact, 2);
  ASSERT_EQ(more.extra, 2);
  EXPECT_EQ(more.differences[0].b->input.value, 10);
  // Recorded sizes lie around the means.
  const Comparison real = must_compare(
      predicted(1, {small, large}),
      recorded(1,
               {{CommKind::all_to_all, 1'100'000}, {CommKind::all_to_all, 12}, {CommKind::all_to_all, 9}}));
  EXPECT_EQ(real.exact, 2);
  ASSERT_EQ(real.extra, 1);
  EXPECT_LT(real.differences[0].b->input.value, 20);
}

TEST(Compare, CallsByCountOfATypeThatTheOtherSideLacksAreExtra) {
  const Call half{CommKind::all_to_all, 100, 0, Match::count, DType::fp16};
  const Call single{CommKind::all_to_all, 100, 0, Match::count, DType::fp32};
  const Comparison other = must_compare(predicted(1, {half, half}), predicted(1, {half, half, single}));
  EXPECT_EQ(other.exact, 2);
  EXPECT_EQ(other.extra, 1);
}

TEST(Compare, CallsByCountOfDifferentTypesHaveAnOrder) {
  const Call half{CommKind::all_to_all, 100, 0, Match::count, DType::fp16};
  const Call single{CommKind::all_to_all, 100, 0, Match::count, DType::fp32};
  const Comparison swapped = must_compare(predicted(1, {half, single}), recorded(1, {single, half}));
  EXPECT_TRUE(swapped.equal());
  EXPECT_EQ(swapped.order_differs, 1);
  EXPECT_EQ(must_compare(predicted(1, {half, single}), recorded(1, {half, single})).order_differs, 0);
}

TEST(Compare, CallsThatRandomNumbersDecideDoNotCount) {
  const Trace a = recorded(2, {{CommKind::all_reduce, 1}, {CommKind::all_gather, 4, 0, Match::random}});
  const Trace b = recorded(2, {{CommKind::all_reduce, 1}});
  EXPECT_TRUE(must_compare(a, b).equal());
  EXPECT_TRUE(must_compare(b, a).equal());
}

TEST(Compare, BarriersAndIgnoredOpsDoNotCount) {
  const Trace a = recorded(2, {{CommKind::all_reduce, 1}, {CommKind::barrier, 0}, {CommKind::broadcast, 5}});
  const Trace b = recorded(2, {{CommKind::all_reduce, 1}});
  const Comparison result = must_compare(a, b, {.ignored = {CommKind::broadcast}});
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.ignored, 4);
  EXPECT_EQ(result.calls_a, 2);
}

TEST(Compare, OrderIsAVerdictOfItsOwn) {
  const Comparison result = must_compare(recorded(3, {{CommKind::all_reduce, 1}, {CommKind::all_reduce, 2}}),
                                         recorded(3, {{CommKind::all_reduce, 2}, {CommKind::all_reduce, 1}}));
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.order_differs, 3);
}

TEST(Compare, OnlyIterationsAndRanksOfBothAreCompared) {
  const Trace a = recorded(2, {{CommKind::all_reduce, 1, 0}, {CommKind::all_reduce, 1, 1}});
  Trace b = recorded(2, {{CommKind::all_reduce, 1, 1}, {CommKind::all_reduce, 9, 2}});
  b.streams.push_back({{Rank{2}, Rank{2}}, {}, {}});
  const Comparison result = must_compare(a, b);
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.iterations, std::vector<Iteration>{1});
  EXPECT_EQ(result.only_a, std::vector<Iteration>{0});
  EXPECT_EQ(result.only_b, std::vector<Iteration>{2});
  EXPECT_EQ(result.ranks, 2);
  EXPECT_EQ(result.ranks_only_b, 1);
}

TEST(Compare, RefusesTracesWithNothingInCommon) {
  const Trace a = recorded(1, {{CommKind::all_reduce, 1, 0}});
  const Result<Comparison> none = compare(a, Trace(), {});
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message.find("no rank is in both: A has ranks 0 to 0, B has no ranks"),
            std::string::npos);
  const Result<Comparison> other = compare(a, recorded(1, {{CommKind::all_reduce, 1, 5}}), {});
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("A has 0, B has 5"), std::string::npos);
}

TEST(Compare, GroupsAreComparedPerRankNotPerName) {
  // Tensor pairs {0 1} {2 3} against explicit lists, and send/recv pairs against patterns.
  Trace a(Mesh{{Axis::pp, 2}, {Axis::dp, 1}, {Axis::tp, 2}});
  const GroupId tp = a.groups.intern(GroupPattern{.axis = Axis::tp, .spans = {{Axis::tp, k_all}}});
  const GroupId next = a.groups.intern(
      GroupPattern{.shape = GroupPattern::Shape::to_next, .axis = Axis::pp, .along = Axis::pp});
  const OpId reduce = a.intern(op_of({CommKind::all_reduce, 4}, tp));
  CommOp send = op_of({CommKind::send, 4}, next);
  send.output = Elements{0};
  a.streams.push_back({{Rank{0}, Rank{1}}, {{reduce, 0}, {a.intern(send), 0}}, {}});
  a.streams.push_back({{Rank{2}, Rank{3}}, {{reduce, 0}}, {}});

  Trace b;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::int64_t low = rank / 2 * 2;
    const GroupId pair = b.groups.intern(std::vector<Rank>{Rank{low}, Rank{low + 1}});
    RankStream stream{{Rank{rank}, Rank{rank}}, {{b.intern(op_of({CommKind::all_reduce, 4}, pair)), 0}}, {}};
    if (rank < 2) {
      CommOp real = send;
      real.group = b.groups.intern(std::vector<Rank>{Rank{rank}, Rank{rank + 2}});
      stream.events.push_back({b.intern(real), 0});
    }
    b.streams.push_back(stream);
  }
  EXPECT_TRUE(must_compare(a, b).equal());
  EXPECT_EQ(must_compare(a, b).exact, 6);

  // Send to the wrong rank: one missing, one extra, both along the pipeline.
  CommOp wrong = send;
  wrong.group = b.groups.intern(std::vector<Rank>{Rank{0}, Rank{3}});
  b.streams[0].events[1] = {b.intern(wrong), 0};
  const Comparison result = must_compare(a, b);
  EXPECT_EQ(result.missing, 1);
  EXPECT_EQ(result.extra, 1);
  ASSERT_EQ(result.differences.size(), 2u);
  EXPECT_EQ(result.differences[0].axis, Axis::pp);
  EXPECT_EQ(result.differences[0].example_group, (std::vector<Rank>{Rank{0}, Rank{2}}));
}

TEST(Compare, TwoClassesAreComparedOnceOrPerRankWhereGroupsMeetPartly) {
  // A block of two is {0 1} for 0 and 1 and {2 3} for 2 and 3; a list is the same for all.
  const auto job = [](const Mesh& mesh, std::vector<AxisSpan> spans) {
    Trace trace(mesh);
    const GroupId group = trace.groups.intern(pattern_over(mesh, Axis::dp, std::move(spans)).value());
    trace.streams.push_back(
        {{Rank{0}, Rank{3}}, {{trace.intern(op_of({CommKind::all_reduce, 4}, group)), 0}}, {}});
    return trace;
  };
  const Mesh mesh{{Axis::dp, 4}};
  const Mesh folded{{Axis::pp, 2}, {Axis::dp, 2}};
  const Trace blocks = job(mesh, {{Axis::dp, {Span::Shape::block, 2}}});  // {0 1} {2 3}
  Trace first_two = job(mesh, {});
  first_two.streams[0].events[0].op = first_two.intern(
      op_of({CommKind::all_reduce, 4}, first_two.groups.intern({Rank{0}, Rank{1}})));  // for all
  const Comparison result = must_compare(blocks, first_two);
  EXPECT_EQ(result.exact, 2);
  EXPECT_EQ(result.missing, 2);
  EXPECT_EQ(result.extra, 2);
  const Comparison same = must_compare(blocks, job(folded, {{Axis::dp, k_all}}));
  EXPECT_EQ(same.exact, 4);
}

TEST(Compare, RootsAreComparedAsGlobalRanks) {
  const auto job = [](const std::vector<Rank>& members, std::int64_t root) {
    Trace trace;
    CommOp op = op_of({CommKind::broadcast, 4}, trace.groups.intern(members));
    op.root = GroupRank{root};
    trace.streams.push_back({{Rank{0}, Rank{0}}, {{trace.intern(op), 0}}, {}});
    return trace;
  };
  EXPECT_TRUE(must_compare(job({Rank{0}, Rank{1}}, 1), job({Rank{1}, Rank{0}}, 0)).equal());
  EXPECT_FALSE(must_compare(job({Rank{0}, Rank{1}}, 1), job({Rank{0}, Rank{1}}, 0)).equal());
}

TEST(Compare, TracesWithoutIterationsAreComparedWhole) {
  const std::vector<Call> calls = {{CommKind::all_reduce, 1, k_unknown_iteration}};
  EXPECT_EQ(must_compare(recorded(2, calls), recorded(2, calls)).exact, 2);
}

TEST(CompareVolumes, AddsUpMessageBytesPerAxisAndOpOfTheLastIteration) {
  const Trace paper = predicted(2, {{CommKind::all_reduce, 100, 0}, {CommKind::all_reduce, 100, 1}});
  const Trace real =
      recorded(2, {{CommKind::all_reduce, 60, 1}, {CommKind::all_reduce, 50, 1}, {CommKind::reduce, 1, 1}});
  const Result<std::vector<VolumeDifference>> rows = compare_volumes(paper, real, {});
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].axis, Axis::dp);
  EXPECT_EQ((*rows)[0].calls_a, 2);
  EXPECT_EQ((*rows)[0].calls_b, 4);
  EXPECT_EQ((*rows)[0].message_a, Bytes{800});
  EXPECT_EQ((*rows)[0].message_b, Bytes{880});
  EXPECT_EQ((*rows)[1].kind, CommKind::reduce);
  EXPECT_EQ((*rows)[1].message_a, Bytes{0});
}

// Three calls of 2^62 bytes on each of two ranks.
TEST(CompareVolumes, HoldsSumsOfImpossibleSizes) {
  const std::vector<Call> calls(3, {CommKind::all_reduce, std::int64_t{1} << 60, 0});
  const Result<std::vector<VolumeDifference>> rows =
      compare_volumes(recorded(2, calls), predicted(2, calls), {});
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ((*rows)[0].message_a, Bytes{INT64_MAX});
  EXPECT_EQ((*rows)[0].message_b, Bytes{INT64_MAX});
}

}  // namespace
}  // namespace commlens
