#include "commlens/compare/explain.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// Builds traces of two data ranks that do the same, one iteration.
/// The causes of these tests' rules.
const RuleBook& book() {
  static const RuleBook rules = [] {
    constexpr static RuleRow rows[] = {
        {"zero12.gradient_all_reduce", {Term::gradients, "gradient_buckets"}},
        {"zero12.norm", {Term::none, "gradient_norms"}},
        {"paper.eq2_gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
        {"paper.eq3_parameter_gather", {Term::parameters, "separate_calls"}},
        {"zero3.parameter_gather",
         {Term::parameters, "separate_calls", "parameters_kept", "coordinator.py:487"}},
        {"pipeline.attention_mask", {Term::none, "attention_mask"}}};
    RuleBook made;
    made.add(rows);
    return made;
  }();
  return rules;
}

class TwoRanks {
 public:
  explicit TwoRanks(std::string framework = "") : trace_(Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 1}}) {
    trace_.provenance.framework = std::move(framework);
    const GroupPattern pattern{.axis = Axis::dp, .spans = {{Axis::dp, {Span::Shape::all, 1}}}};
    group_ = trace_.groups.intern(pattern);
    stream_.ranks = {Rank{0}, Rank{1}};
  }

  TwoRanks& call(CommKind kind, std::int64_t elements, const Rule& rule = {}) {
    CommOp op;
    op.kind = kind;
    op.dtype = DType::fp32;
    op.group = group_;
    op.input = {kind == CommKind::all_gather ? elements / 2 : elements};
    op.output = {kind == CommKind::reduce_scatter ? elements / 2 : elements};
    op.rule = trace_.intern(rule);
    stream_.events.push_back({trace_.intern(op), 0, k_no_micro_batch});
    return *this;
  }

  Trace take() {
    trace_.streams.push_back(std::move(stream_));
    return std::move(trace_);
  }

 private:
  Trace trace_;
  RankStream stream_;
  GroupId group_{};
};

const Rule k_equation{"paper.eq2_gradient_reduce_scatter", "Eq. 2"};
const Rule k_bucket{"zero12.gradient_all_reduce", "stage_1_and_2.py:1496"};
const Rule k_norm{"zero12.norm", "stage_1_and_2.py:1691"};

const ExplainedGroup* group_of(const Explanation& explanation, std::string_view cause) {
  for (const ExplainedGroup& group : explanation.explained) {
    if (group.cause.name == cause) {
      return &group;
    }
  }
  return nullptr;
}

// Five calls of 2^62 bytes on each of two ranks: more than an integer holds, and never less than nothing.
TEST(ExplainSteps, HoldSumsOfImpossibleSizes) {
  using By = ExplainStep::By;
  constexpr std::int64_t elements = INT64_MAX / 8;  // of four bytes
  const Trace first = TwoRanks().call(CommKind::all_reduce, 1).take();
  TwoRanks many;
  for (int call = 0; call < 5; ++call) {
    many.call(CommKind::broadcast, elements);
  }
  const Result<Explanation> done =
      explain_steps(first, {{By::nothing, "", "", many.take()}}, {.rules = &book()});
  ASSERT_TRUE(done.has_value());
  ASSERT_EQ(done->unexplained.size(), 2u);
  EXPECT_EQ(done->unexplained[0].message_b, Bytes{INT64_MAX});
}

TEST(ExplainCalls, HoldSumsOfImpossibleSizes) {
  const Trace none = TwoRanks().call(CommKind::all_reduce, 1).take();
  TwoRanks many;
  for (int call = 0; call < 5; ++call) {
    many.call(CommKind::broadcast, INT64_MAX / 8);
  }
  const Result<Comparison> comparison = compare(none, many.take(), {});
  ASSERT_TRUE(comparison.has_value());
  const Explanation explanation = explain_calls(*comparison);
  ASSERT_EQ(explanation.unexplained.size(), 2u);
  EXPECT_EQ(explanation.unexplained[0].message_b, Bytes{INT64_MAX});
  EXPECT_EQ(explanation.unexplained[0].message(), Bytes{INT64_MAX});
}

/// Eq. 2's reduce_scatter of 100 elements; 108 after a correction; then all_reduce; the framework sends two
/// buckets of 60 and 48, and a norm. All numbers are of two ranks, four bytes an element.
TEST(ExplainSteps, EachStepHasWhatItChanges) {
  using By = ExplainStep::By;
  const Trace first = TwoRanks("paper").call(CommKind::reduce_scatter, 100, k_equation).take();
  std::vector<ExplainStep> steps;
  steps.push_back({By::cause, "layer_parameters", "Eq. 1",
                   TwoRanks().call(CommKind::reduce_scatter, 108, k_equation).take()});
  steps.push_back({By::cause, "all_reduce_for_reduce_scatter", "stage_1_and_2.py:1496",
                   TwoRanks().call(CommKind::all_reduce, 108, k_equation).take()});
  const Trace framework = TwoRanks()
                              .call(CommKind::all_reduce, 60, k_bucket)
                              .call(CommKind::all_reduce, 48, k_bucket)
                              .call(CommKind::all_reduce, 1, k_norm)
                              .take();
  steps.push_back({By::rules, "", "", framework});
  steps.push_back({By::nothing, "", "", framework});
  const Explanation explanation = explain_steps(first, steps, {.rules = &book()}).value();
  EXPECT_TRUE(explanation.complete());
  EXPECT_EQ(explanation.ranks, 2);
  ASSERT_EQ(explanation.explained.size(), 4U);

  const ExplainedGroup* const swap = group_of(explanation, "all_reduce_for_reduce_scatter");
  ASSERT_NE(swap, nullptr);
  EXPECT_EQ(swap->message(), Bytes{0});
  EXPECT_EQ(swap->moved(), Bytes{2 * 2 * 108 * 4});
  EXPECT_EQ(swap->cause.source, "stage_1_and_2.py:1496");
  EXPECT_EQ(group_of(explanation, "layer_parameters")->message(), Bytes{2 * 8 * 4});
  EXPECT_EQ(group_of(explanation, "gradient_buckets")->calls(), 2);
  EXPECT_EQ(group_of(explanation, "gradient_buckets")->message(), Bytes{0});
  const ExplainedGroup* const norm = group_of(explanation, "gradient_norms");
  ASSERT_EQ(norm->rows.size(), 1U);
  EXPECT_EQ(norm->rows[0].rule, "zero12.norm");
  EXPECT_EQ(norm->rows[0].calls_b, 2);
  EXPECT_EQ(norm->rows[0].message_b, Bytes{8});
}

/// The framework reduces 4 elements more than the corrected equation says: no cause may hide them.
TEST(ExplainSteps, BytesOfATermWithoutReasonAreUnexplained) {
  using By = ExplainStep::By;
  const Trace first = TwoRanks("paper").call(CommKind::all_reduce, 100, k_equation).take();
  const Explanation explanation =
      explain_steps(first, {{By::rules, "", "", TwoRanks().call(CommKind::all_reduce, 104, k_bucket).take()}},
                    {.rules = &book()})
          .value();
  ASSERT_EQ(explanation.unexplained.size(), 1U);
  EXPECT_EQ(explanation.unexplained[0].message(), Bytes{2 * 4 * 4});
  EXPECT_FALSE(explanation.complete());
}

TEST(ExplainSteps, CallsOfAnUnknownRuleAreUnexplained) {
  using By = ExplainStep::By;
  const Trace first = TwoRanks("paper").call(CommKind::all_reduce, 100, k_equation).take();
  const Trace second = TwoRanks()
                           .call(CommKind::all_reduce, 100, k_bucket)
                           .call(CommKind::all_gather, 10, {"new.rule", "file:1"})
                           .take();
  const Explanation explanation =
      explain_steps(first, {{By::rules, "", "", second}}, {.rules = &book()}).value();
  ASSERT_EQ(explanation.unexplained.size(), 1U);
  EXPECT_EQ(explanation.unexplained[0].kind, CommKind::all_gather);
  EXPECT_EQ(explanation.unexplained[0].rule, "new.rule");
}

/// ZeRO-3 may gather less than the equation, never more.
TEST(ExplainSteps, OnlyFewerGatheredBytesAreKeptParameters) {
  using By = ExplainStep::By;
  const Rule equation{"paper.eq3_parameter_gather", "Eq. 3"};
  const Rule gather{"zero3.parameter_gather", "coordinator.py:261"};
  const Trace first = TwoRanks("paper").call(CommKind::all_gather, 100, equation).take();
  const auto explained = [&](std::int64_t elements) {
    return explain_steps(
               first, {{By::rules, "", "", TwoRanks().call(CommKind::all_gather, elements, gather).take()}},
               {.rules = &book()})
        .value();
  };
  const Explanation less = explained(60);
  EXPECT_TRUE(less.complete());
  EXPECT_EQ(group_of(less, "parameters_kept")->message(), Bytes{-2 * 40 * 4});
  EXPECT_FALSE(explained(104).complete());
}

/// A recording that has one call more than its own framework's rules predict.
TEST(ExplainSteps, ListsCallsThatTheRulesDoNotPredict) {
  using By = ExplainStep::By;
  const Trace first = TwoRanks("paper").call(CommKind::all_reduce, 100, k_equation).take();
  std::vector<ExplainStep> steps;
  steps.push_back({By::rules, "", "", TwoRanks().call(CommKind::all_reduce, 100, k_bucket).take()});
  steps.push_back(
      {By::nothing, "", "", TwoRanks().call(CommKind::all_reduce, 100).call(CommKind::broadcast, 7).take()});
  const Explanation explanation = explain_steps(first, steps, {.rules = &book()}).value();
  ASSERT_EQ(explanation.unexplained.size(), 1U);
  EXPECT_EQ(explanation.unexplained[0].message(), Bytes{2 * 7 * 4});
  ASSERT_EQ(explanation.unexplained_calls.size(), 1U);
  EXPECT_EQ(explanation.unexplained_calls[0].verdict, Verdict::extra);

  const Explanation other_way = exchanged(explanation);
  EXPECT_EQ(other_way.unexplained[0].message(), Bytes{-2 * 7 * 4});
  EXPECT_EQ(other_way.unexplained_calls[0].verdict, Verdict::missing);
}

TEST(ExplainCalls, GroupsDifferencesByTheCauseOfTheirRule) {
  const Trace a =
      TwoRanks().call(CommKind::all_reduce, 100, k_bucket).call(CommKind::all_reduce, 1, k_norm).take();
  const Trace b = TwoRanks().call(CommKind::all_reduce, 120).call(CommKind::broadcast, 7).take();
  const Comparison comparison = compare(a, b, {.rules = &book()}).value();
  const Explanation explanation = explain_calls(comparison);
  // 100 and 1 elements pair, in order, with 120 and nothing.
  ASSERT_EQ(explanation.explained.size(), 2U);
  EXPECT_EQ(group_of(explanation, "gradients")->message(), Bytes{2 * 20 * 4});
  EXPECT_EQ(group_of(explanation, "gradient_norms")->calls(), -2);
  ASSERT_EQ(explanation.unexplained_calls.size(), 1U);
  EXPECT_EQ(explanation.unexplained_calls[0].kind, CommKind::broadcast);
  EXPECT_EQ(explanation.unexplained[0].message(), Bytes{2 * 7 * 4});
}

TEST(CauseOfRule, NamesReductionsOnOneRankApart) {
  EXPECT_EQ(cause_of_rule(book(), "zero12.gradient_all_reduce", Axis::self), "one_rank_gradients");
  EXPECT_EQ(cause_of_rule(book(), "zero12.gradient_all_reduce", Axis::dp), "gradients");
  EXPECT_EQ(cause_of_rule(book(), "pipeline.attention_mask", Axis::pp), "attention_mask");
  EXPECT_EQ(cause_of_rule(book(), "unheard.of", Axis::dp), "");
}

}  // namespace
}  // namespace commlens
