#include <gtest/gtest.h>

#include "commlens/compare/compare.hpp"

namespace commlens {
namespace {

/// Rank 0 of two: at start 3 broadcasts of 2,000 B; an iteration has an all_reduce of 4,096 B, the first one
/// two; every iteration gathers 1,024 B shards twice and has sends, which the logger does not record. The
/// iterations have the numbers `cold` and `steady`.
Trace prediction(Iteration cold = 0, Iteration steady = 1) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 1}});
  const GroupId dp =
      trace.groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {.shape = Span::Shape::all}}}});
  const auto op = [&](CommKind kind, std::int64_t input, std::int64_t output, const char* source) {
    CommOp result;
    result.kind = kind;
    result.group = dp;
    result.input = Elements{input};
    result.output = Elements{output};
    result.rule = trace.intern(Rule{std::string("rule.") + std::string(name_of(kind)), source, true});
    return trace.intern(result);
  };
  const OpId broadcast = op(CommKind::broadcast, 2000, 2000, "deepspeed 0.14.0 engine.py:1077");
  const OpId reduce = op(CommKind::all_reduce, 4096, 4096, "deepspeed 0.14.0 stage_1_and_2.py:1496");
  const OpId gather = op(CommKind::all_gather, 1024, 2048, "deepspeed 0.14.0 utils.py:961");
  const OpId hidden = op(CommKind::all_reduce, 77, 77, "neox 4bc66703 mpu/mappings.py:42");
  RankStream stream{{Rank{0}, Rank{1}}, {}, {}};
  stream.events = {{broadcast, -1},  {broadcast, -1},  {broadcast, -1},  {reduce, cold},
                   {reduce, cold},   {gather, cold},   {gather, cold},   {hidden, cold},
                   {reduce, steady}, {gather, steady}, {gather, steady}, {hidden, steady}};
  trace.streams.push_back(stream);
  return trace;
}

struct LogLine {
  CommKind kind{};
  std::int64_t size = 0;
  std::int64_t rounding = 0;
  std::int64_t count = 0;
  const char* caller = "";
};

Trace log_of(const std::vector<LogLine>& lines) {
  Trace trace;
  trace.provenance.accounting = Accounting::comms_logger;
  const GroupId unknown = trace.groups.intern(std::vector<Rank>{});
  RankStream stream{{Rank{0}, Rank{0}}, {}, {}};
  for (const LogLine& line : lines) {
    CommOp op;
    op.kind = line.kind;
    op.group = unknown;
    op.input = Elements{line.size};
    op.output = Elements{line.size};
    op.rounding = Bytes{line.rounding};
    op.name = trace.names.intern(line.caller);
    for (std::int64_t each = 0; each < line.count; ++each) {
      stream.events.push_back({trace.intern(op), k_unknown_iteration});
    }
  }
  trace.streams.push_back(stream);
  return trace;
}

TEST(CompareLogged, FitsTheNumberOfIterations) {
  // Four iterations: 2 + 1 + 1 + 1 reductions, 8 gathers.
  const Result<LoggedComparison> result = compare_logged(prediction(),
                                                         log_of({{CommKind::broadcast, 1997, 5, 3},
                                                                 {CommKind::all_reduce, 4096, 6, 5},
                                                                 {CommKind::all_gather, 1024, 6, 8}}),
                                                         std::nullopt);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->iterations, 4);
  EXPECT_TRUE(result->iterations_fitted);
  EXPECT_TRUE(result->equal());
  ASSERT_EQ(result->rows.size(), 3u);
  EXPECT_EQ(result->rows[0].kind, CommKind::all_reduce);
  EXPECT_EQ(result->rows[0].predicted, 5);
  EXPECT_EQ(result->rows[0].rules, std::vector<std::string>{"rule.all_reduce"});
}

// A recording need not start at iteration 0: 2 + 1 + 1 + 1 reductions and 8 gathers are four iterations, from
// whatever number on.
TEST(CompareLogged, IterationsCountByTheirPlaceNotTheirNumber) {
  const Trace log = log_of({{CommKind::broadcast, 2000, 5, 3},
                            {CommKind::all_reduce, 4096, 6, 5},
                            {CommKind::all_gather, 1024, 6, 8}});
  for (const auto& [cold, steady] : std::vector<std::pair<Iteration, Iteration>>{
           {100, 101}, {0, 2'000'000'000}, {INT32_MAX - 1, INT32_MAX}}) {
    const Result<LoggedComparison> result = compare_logged(prediction(cold, steady), log, std::nullopt);
    ASSERT_TRUE(result.has_value()) << cold;
    EXPECT_EQ(result->iterations, 4) << cold;
    EXPECT_TRUE(result->equal()) << cold;
  }
}

TEST(CompareLogged, FitsRunsShorterThanThePrediction) {
  const Result<LoggedComparison> result = compare_logged(
      prediction(), log_of({{CommKind::all_reduce, 4096, 6, 2}, {CommKind::all_gather, 1024, 6, 2}}),
      std::nullopt);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->iterations, 1);
}

TEST(CompareLogged, TakesTheRequestedNumberOfIterations) {
  const Result<LoggedComparison> result =
      compare_logged(prediction(), log_of({{CommKind::all_reduce, 4096, 6, 5}}), 2);
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->iterations_fitted);
  EXPECT_EQ(result->iterations, 2);
  EXPECT_EQ(result->rows[0].predicted, 3);
  EXPECT_FALSE(result->equal());
}

TEST(CompareLogged, ShowsWhatOnlyOneSideHas) {
  const Result<LoggedComparison> result = compare_logged(
      prediction(), log_of({{CommKind::all_reduce, 4096, 6, 2}, {CommKind::reduce, 10, 0, 7}}), 1);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->rows.size(),
            4u);  // all_reduce, all_gather, broadcast (predicted only), reduce (logged only)
  EXPECT_EQ(result->exact_rows, 1);
  EXPECT_EQ(result->rows[1].kind, CommKind::all_gather);
  EXPECT_EQ(result->rows[1].logged, 0);
  EXPECT_EQ(result->rows[1].predicted, 2);
  EXPECT_EQ(result->rows[3].kind, CommKind::reduce);
  EXPECT_EQ(result->rows[3].predicted, 0);
}

TEST(CompareLogged, IgnoredOpsVanishOnBothSides) {
  const Trace log = log_of({{CommKind::all_reduce, 4096, 6, 2}, {CommKind::reduce, 10, 0, 7}});
  const Result<LoggedComparison> result =
      compare_logged(prediction(), log, 1, {CommKind::reduce, CommKind::all_gather, CommKind::broadcast});
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->rows.size(), 1u);
  EXPECT_TRUE(result->equal());
  EXPECT_EQ(result->ignored_rows, 3);
  EXPECT_FALSE(compare_logged(prediction(), log, 1, {CommKind::reduce, CommKind::all_reduce}).has_value());
}

TEST(CompareLogged, CallersOfOneSizeAreAddedUp) {
  const Result<LoggedComparison> result = compare_logged(
      prediction(), log_of({{CommKind::broadcast, 2000, 5, 1, "f"}, {CommKind::broadcast, 2000, 5, 2, "g"}}),
      1);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rows[2].logged, 3);
  EXPECT_EQ(result->rows[2].predicted, 3);
}

TEST(CompareLogged, BarriersDoNotCountAndEmptyLogsAreRefused) {
  EXPECT_FALSE(compare_logged(prediction(), log_of({{CommKind::barrier, 0, 0, 3}}), 1).has_value());
  EXPECT_FALSE(compare_logged(Trace(), log_of({{CommKind::reduce, 1, 0, 3}}), 1).has_value());
}

TEST(Compare, OfTwoLogsKnowsThatTheirSizesArePrinted) {
  const Result<Comparison> result =
      compare(log_of({{CommKind::all_gather, 1024, 0, 1}}), log_of({{CommKind::all_gather, 2048, 0, 1}}), {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_EQ(result->differences.size(), 1U);
  EXPECT_TRUE(result->differences[0].logged_a && result->differences[0].logged_b);
  Trace more = prediction();
  more.streams[0].events.push_back(more.streams[0].events.back());
  const Result<Comparison> calls = compare(prediction(), more, {});
  ASSERT_TRUE(calls.has_value()) << calls.error().message;
  ASSERT_EQ(calls->differences.size(), 1U);
  EXPECT_FALSE(calls->differences[0].logged_a || calls->differences[0].logged_b);
}

}  // namespace
}  // namespace commlens
