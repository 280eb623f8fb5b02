#include "commlens/report/comparison_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/report/table_json.hpp"

namespace commlens {
namespace {

Comparison equal_sides() {
  Comparison comparison;
  comparison.iterations = {-1, 0, 1, 2};
  comparison.ranks = 4;
  comparison.exact = 1248;
  comparison.calls_a = 1248;
  comparison.calls_b = 1248;
  return comparison;
}

Comparison different_sides() {
  Comparison comparison = equal_sides();
  comparison.exact = 1240;
  comparison.size = 4;
  comparison.missing = 3;
  comparison.extra = 1;
  Difference difference;
  difference.verdict = Verdict::size;
  difference.kind = CommKind::all_gather;
  difference.axis = Axis::dp;
  difference.group_size = 4;
  difference.calls = 4;
  difference.ranks = 4;
  difference.example_iteration = 1;
  difference.example_group = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  difference.rule.name = "step.gather";
  CommOp op;
  op.kind = CommKind::all_gather;
  op.dtype = DType::fp16;
  op.input = Elements{500};
  op.output = Elements{2000};
  difference.a = op;
  op.input = Elements{501};
  op.output = Elements{2004};
  difference.b = op;
  comparison.differences = {difference};
  return comparison;
}

TEST(VerdictLine, SaysEqualOrWhatDiffers) {
  EXPECT_EQ(verdict_line(equal_sides(), false), "equal: 1248 of 1248 calls (4 ranks, iterations -1 to 2)");
  EXPECT_EQ(
      verdict_line(different_sides(), false),
      "different: 1240 of 1248 calls equal, 4 of another size, 3 only in A, 1 only in B (4 ranks, iterations "
      "-1 to 2)");
}

// 1,600 and 1,760 bytes in 4 calls are 400 and 440 in the mean; those of the other group are equal.
TEST(ComparisonText, SaysWhichSizesThatDependOnDataAreApart) {
  Comparison comparison = equal_sides();
  comparison.counted_sizes = {{CommKind::all_to_all, Axis::dp, 2, 4, Bytes{1600}, Bytes{1760}},
                              {CommKind::broadcast, Axis::dp, 4, 4, Bytes{1600}, Bytes{1600}}};
  const std::string text = comparison_text(comparison, false, {}, 0);
  EXPECT_NE(
      text.find("only the number of calls was compared: all_to_all dp x2, 4 calls, in the mean 400 B in A "
                "and 440 B in B; do both route tokens to as many experts, with the same capacity?\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("broadcast"), std::string::npos) << text;
  const auto json = comparison_json(comparison, false);
  EXPECT_EQ(json["counted_sizes"][0]["mean_message_bytes_b"], 440);
  EXPECT_EQ(json["counted_sizes"].size(), 2U);
}

TEST(VerdictLine, OrderCountsOnlyWhenAsked) {
  Comparison comparison = equal_sides();
  comparison.order_differs = 2;
  EXPECT_EQ(verdict_line(comparison, false), "equal: 1248 of 1248 calls (4 ranks, iterations -1 to 2)");
  EXPECT_EQ(verdict_line(comparison, true),
            "different: 1248 of 1248 calls equal, but in another order (4 ranks, iterations -1 to 2)");
  EXPECT_NE(comparison_text(comparison, false, {}).find("order: 2 of 16 sequences"), std::string::npos);
}

TEST(ComparisonText, ShowsSizesToTheByte) {
  const std::string text = comparison_text(different_sides(), false, {});
  EXPECT_NE(text.find("fp16 in 1,000 out 4,000 B  fp16 in 1,002 out 4,008 B"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 iteration 1 group [0 1 2 3]"), std::string::npos) << text;
}

TEST(ComparisonText, OfALoggersViewHasTheOneSizeThatWasPrinted) {
  Comparison comparison = different_sides();
  Difference& gathers = comparison.differences[0];
  gathers.a->output = gathers.b->output = Elements{0};  // not printed
  gathers.logged_a = gathers.logged_b = true;
  const std::string text = comparison_text(comparison, false, {});
  EXPECT_NE(text.find("fp16 1,000 B  fp16 1,002 B"), std::string::npos) << text;
  EXPECT_EQ(text.find("out 0"), std::string::npos) << text;
  const nlohmann::ordered_json json = rows_json(differences_table(comparison.differences));
  EXPECT_EQ(json[0]["input_bytes_a"], 1000);
  EXPECT_TRUE(json[0]["output_bytes_a"].is_null());
  EXPECT_TRUE(json[0]["message_bytes_b"].is_null());
  EXPECT_NE(
      comparison_csv(comparison).find("size,all_gather,dp,4,fp16,1000,,fp16,1002,,4,4,0,1,step.gather,,"),
      std::string::npos);
  // The output of a send is known: 0 bytes.
  gathers.kind = gathers.a->kind = gathers.b->kind = CommKind::send;
  EXPECT_EQ(rows_json(differences_table(comparison.differences))[0]["output_bytes_a"], 0);
}

TEST(ComparisonText, SaysWhatWasNotCompared) {
  Comparison comparison = equal_sides();
  comparison.only_b = {3, 4};
  comparison.ranks_only_a = 12;
  const std::string text = comparison_text(comparison, false, {});
  EXPECT_NE(text.find("not compared: iterations 3 to 4, which only B has\n"), std::string::npos) << text;
  EXPECT_NE(text.find("not compared: 12 ranks, which only A has\n"), std::string::npos) << text;
}

TEST(ComparisonText, LongListsEndWithTheNumberLeft) {
  Comparison comparison = different_sides();
  comparison.differences.push_back(comparison.differences[0]);
  EXPECT_NE(comparison_text(comparison, false, {}, 1).find("… and 1 more kinds of difference"),
            std::string::npos);
}

TEST(ComparisonJson, HoldsVerdictAndDifferences) {
  const nlohmann::ordered_json json = comparison_json(different_sides(), false);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["equal_calls_all_ranks"], 1240);
  EXPECT_EQ(json["differences"][0]["verdict"], "size");
  EXPECT_EQ(json["differences"][0]["input_bytes_a"], 1000);
  EXPECT_EQ(json["differences"][0]["output_bytes_b"], 4008);
  EXPECT_EQ(json["differences"][0]["example_group"], (nlohmann::ordered_json{0, 1, 2, 3}));
}

TEST(ComparisonCsv, HasOneLinePerDifference) {
  const std::string text = comparison_csv(different_sides());
  EXPECT_NE(text.find("size,all_gather,dp,4,fp16,1000,4000,fp16,1002,4008,4,4,0,1,step.gather,,"),
            std::string::npos)
      << text;
}

TEST(ComparisonText, KeepsTheRuleInEightyColumns) {
  const std::string text = comparison_text(different_sides(), false, {.width = 80});
  EXPECT_NE(text.find("step.gather"), std::string::npos) << text;
  EXPECT_NE(text.find("hidden, too narrow: "), std::string::npos) << text;
}

TEST(ComparisonCsv, StatesAnotherOrderWhenItCounts) {
  Comparison comparison = equal_sides();
  comparison.order_differs = 2;
  EXPECT_NE(
      comparison_csv(comparison, true).find("source,tag,reordered_sequences\norder,,,,,,,,,,,,,,,,,,,,,2\n"),
      std::string::npos);
  EXPECT_EQ(comparison_csv(comparison).find("order,"), std::string::npos);
}

TEST(LoggedText, NamesARecordedSideByItsLetter) {
  LoggedComparison comparison;
  comparison.iterations = 1;
  comparison.rows = {{CommKind::reduce, Bytes{8}, Bytes{0}, 3, 0, {}}};
  comparison.ignored_rows = 2;
  const std::string text = logged_text(comparison, {}, "A");
  EXPECT_EQ(text.find("predicted"), std::string::npos) << text;
  EXPECT_NE(text.find("not in A"), std::string::npos) << text;
  EXPECT_NE(text.find("skipped: 2 sizes of ignored ops\n"), std::string::npos) << text;
  EXPECT_EQ(logged_json(comparison, "A")["rows"][0]["expected_calls_rank_0"], 0);
}

TEST(VolumesText, ShowsTheRatio) {
  const std::vector<VolumeDifference> rows = {
      {Axis::dp, CommKind::all_reduce, 16, 32, Bytes{1000}, Bytes{1500}},
      {Axis::pp, CommKind::send, 0, 1, Bytes{0}, Bytes{8}}};
  EXPECT_FALSE(all_equal(rows));
  const std::string text = volumes_text(rows, {});
  EXPECT_NE(text.find("different: message bytes per axis and op of one iteration, all ranks together\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("1.5000"), std::string::npos) << text;
  EXPECT_EQ(volumes_json(rows)["rows"][0]["message_bytes_b_all_ranks"], 1500);
  EXPECT_NE(volumes_csv(rows).find("pp,send,0,1,0,8,\n"), std::string::npos);
}

TEST(LoggedText, SaysHowManyIterationsFit) {
  LoggedComparison comparison;
  comparison.iterations = 10;
  comparison.iterations_fitted = true;
  comparison.rows = {
      {CommKind::broadcast, Bytes{2048}, Bytes{51}, 146, 146, {"start.broadcast_parameter"}, {"start"}},
      {CommKind::reduce, Bytes{8}, Bytes{0}, 0, 3, {}}};
  comparison.exact_rows = 1;
  const std::string text = logged_text(comparison, {});
  EXPECT_NE(
      text.find("different: 1 of 2 logged sizes have the predicted count (rank 0, 10 iterations, the number "
                "that fits best)"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("2.00 KiB ±51 B"), std::string::npos) << text;
  EXPECT_NE(text.find("not logged"), std::string::npos) << text;
  EXPECT_EQ(logged_json(comparison)["rows"][0]["logged_calls_rank_0"], 146);
  EXPECT_NE(logged_csv(comparison).find("broadcast,2048,51,146,146,equal,start,start.broadcast_parameter\n"),
            std::string::npos);
}

TEST(ComparisonJson, HasNoNumberForAnUnknownIteration) {
  Comparison comparison = different_sides();
  EXPECT_EQ(rows_json(differences_table(comparison.differences))[0]["example_iteration"], 1);
  comparison.differences[0].example_iteration = k_unknown_iteration;
  EXPECT_TRUE(rows_json(differences_table(comparison.differences))[0]["example_iteration"].is_null());
}

TEST(ComparisonCsv, LeavesAnUnknownIterationEmpty) {
  Comparison comparison = different_sides();
  EXPECT_NE(comparison_csv(comparison).find(",4,4,0,1,step.gather,"), std::string::npos);
  comparison.differences[0].example_iteration = k_unknown_iteration;
  EXPECT_NE(comparison_csv(comparison).find(",4,4,0,,step.gather,"), std::string::npos);
}

}  // namespace
}  // namespace commlens
