#include "commlens/trace/trace.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Trace, GivesEqualOpsOneIdAndEveryDifferenceAnother) {
  Trace trace;
  const CommOp plain{
      .kind = CommKind::all_reduce, .dtype = DType::fp16, .input = Elements{8}, .output = Elements{8}};
  std::vector<CommOp> ops(11, plain);
  ops[1].kind = CommKind::reduce;
  ops[2].dtype = DType::bf16;
  ops[3].phase = Phase::backward;
  ops[4].match = Match::count;
  ops[5].group = GroupId{1};
  ops[6].input = Elements{9};
  ops[7].output = Elements{9};
  ops[8].root = GroupRank{0};
  ops[9].rounding = Bytes{1};
  ops[10].tag = TagId{1};
  ops.push_back(plain);
  ops.back().rule = RuleId{1};
  ops.push_back(plain);
  ops.back().name = NameId{1};
  ops.push_back(plain);
  ops.back().site = NameId{1};
  ops.push_back(plain);
  ops.back().note = NameId{1};
  ops.push_back(plain);
  ops.back().reduction = Reduction::sum;
  ops.push_back(plain);
  ops.back().algorithm = Algorithm::tree;
  ops.push_back(plain);
  ops.back().protocol = Protocol::ll;
  ops.push_back(plain);
  ops.back().blocking = false;
  ops.push_back(plain);
  ops.back().blocking = true;
  for (std::size_t row = 0; row < ops.size(); ++row) {
    EXPECT_EQ(static_cast<std::size_t>(trace.intern(ops[row])), row);
  }
  for (std::size_t row = 0; row < ops.size(); ++row) {
    EXPECT_EQ(static_cast<std::size_t>(trace.intern(ops[row])), row);
    EXPECT_EQ(trace.op(OpId{static_cast<std::uint32_t>(row)}), ops[row]);
  }
}

TEST(Trace, KeepsIdsOfOpsWhileTheTableGrows) {
  Trace trace;
  constexpr std::int64_t ops = 100'000;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t size = 0; size < ops; ++size) {
      const OpId id = trace.intern(CommOp{.kind = CommKind::send, .input = Elements{size * 1024}});
      ASSERT_EQ(static_cast<std::int64_t>(id), size);
    }
  }
  EXPECT_EQ(trace.ops().size(), static_cast<std::size_t>(ops));
}

TEST(Trace, StoresARuleOnceAndNoRuleAsTheFirst) {
  Trace trace;
  const Rule rule{.name = "zero1.gradient_all_reduce", .source = "stage_1_and_2.py:1496", .verified = true};
  EXPECT_EQ(trace.intern(Rule{}), RuleId{0});
  EXPECT_EQ(trace.intern(rule), RuleId{1});
  EXPECT_EQ(trace.intern(rule), RuleId{1});
  EXPECT_EQ(trace.intern(Rule{.name = rule.name, .source = rule.source, .verified = false}), RuleId{2});
  EXPECT_EQ(trace.rule(RuleId{1}), rule);
}

Trace with_streams(const std::vector<RankRange>& ranges) {
  Trace trace;
  for (const RankRange range : ranges) {
    trace.streams.push_back({range, {}, {}});
  }
  return trace;
}

TEST(Trace, FindsTheStreamOfARankInAnyOrderOfStreams) {
  for (const std::vector<RankRange>& ranges :
       {std::vector<RankRange>{{{0}, {3}}, {{4}, {4}}, {{6}, {7}}}, {{{6}, {7}}, {{0}, {3}}, {{4}, {4}}}}) {
    const Trace trace = with_streams(ranges);
    EXPECT_EQ(trace.ranks(), 8);
    for (const std::int64_t rank : {0, 3, 4, 6, 7}) {
      const RankStream* const stream = trace.stream_of(Rank{rank});
      ASSERT_NE(stream, nullptr) << "rank=" << rank;
      EXPECT_TRUE(stream->ranks.contains(Rank{rank})) << "rank=" << rank;
    }
    EXPECT_EQ(trace.stream_of(Rank{5}), nullptr);
    EXPECT_EQ(trace.stream_of(Rank{8}), nullptr);
  }
}

TEST(Trace, WithoutStreamsHasNoRanks) {
  EXPECT_EQ(Trace().ranks(), 0);
  EXPECT_EQ(Trace().stream_of(Rank{0}), nullptr);
  EXPECT_TRUE(Trace().iterations().empty());
}

TEST(Trace, ListsTheIterationsThatOccurAscending) {
  Trace trace = with_streams({{{0}, {0}}, {{1}, {1}}});
  const OpId op = trace.intern(CommOp{});
  trace.streams[0].events = {{op, 2, -1}, {op, 0, -1}, {op, 2, -1}};
  trace.streams[1].events = {{op, k_unknown_iteration, -1}, {op, k_init_iteration, -1}};
  EXPECT_EQ(trace.iterations(), (std::vector<Iteration>{-1, 0, 2}));
}

TEST(Source, HasANameThatLeadsBack) {
  for (const Source source :
       {Source::predicted, Source::recorded, Source::imported, Source::simulated, Source::replayed}) {
    EXPECT_EQ(source_from(name_of(source)), source);
  }
  EXPECT_EQ(source_from("guessed"), std::nullopt);
  EXPECT_EQ(accounting_from(name_of(Accounting::comms_logger)), Accounting::comms_logger);
  EXPECT_EQ(accounting_from(""), std::nullopt);
}

}  // namespace
}  // namespace commlens
