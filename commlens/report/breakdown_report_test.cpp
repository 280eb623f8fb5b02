#include "commlens/report/breakdown_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

BreakdownRow row_of(RankRange ranks, CommKind kind, std::int64_t message) {
  BreakdownRow row;
  row.ranks = ranks;
  row.kind = kind;
  row.axis = Axis::dp;
  row.group_size = 2;
  row.phase = Phase::backward;
  row.dtype = DType::fp16;
  row.message = Bytes{message};
  row.calls = 3;
  row.total_message = Bytes{3 * message};
  row.wire_per_rank = Bytes{3 * message};
  return row;
}

TEST(BreakdownText, ShowsABlockPerClassWithItsTotals) {
  Trace trace;
  BreakdownRow row = row_of({Rank{0}, Rank{1}}, CommKind::all_reduce, 2048);
  row.rule = trace.intern(Rule{"zero1.gradient", "deepspeed", false});
  EXPECT_EQ(breakdown_text(trace, {row}, {}),
            "each of ranks 0-1 (2 ranks)\n"
            "  op          group  phase     dtype   message  calls     total  wire/rank  why\n"
            "  all_reduce  dp x2  backward  fp16   2.00 KiB      3  6.00 KiB   6.00 KiB  zero1.gradient "
            "(unverified)\n"
            "  one rank: 3 calls, 6.00 KiB message bytes, 6.00 KiB wire bytes\n");
}

TEST(BreakdownText, ClassesThatDoTheSameShareABlock) {
  const Trace trace;
  const std::string text = breakdown_text(
      trace,
      {row_of({Rank{0}, Rank{0}}, CommKind::all_reduce, 8), row_of({Rank{1}, Rank{2}}, CommKind::reduce, 8),
       row_of({Rank{3}, Rank{3}}, CommKind::all_reduce, 8)},
      {});
  EXPECT_NE(text.find("each of ranks 0, 3 (2 ranks)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("each of ranks 1-2 (2 ranks)\n"), std::string::npos) << text;
}

TEST(BreakdownText, FitsEightyColumns) {
  Trace trace;
  BreakdownRow row = row_of({Rank{0}, Rank{1}}, CommKind::reduce_scatter, 1'071'644'672);
  row.phase = Phase::recompute;
  row.rule = trace.intern(Rule{"checkpoint.gather_partitioned_activations", "deepspeed", true});
  const std::string text = breakdown_text(trace, {row}, {.width = 80});
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    EXPECT_LE(display_width(text.substr(start, end - start)), 80u) << text;
    start = end + 1;
  }
  EXPECT_NE(text.find("checkpoint.gat"), std::string::npos) << text;
}

TEST(BreakdownText, FlagsWhatMovesNothingAndWhatIsOnlyExpected) {
  const Trace trace;
  BreakdownRow alone = row_of({Rank{0}, Rank{0}}, CommKind::all_reduce, 8);
  alone.axis = Axis::self;
  alone.group_size = 1;
  alone.wire_per_rank = Bytes{0};
  BreakdownRow expected = row_of({Rank{0}, Rank{0}}, CommKind::all_to_all, 8);
  expected.match = Match::count;
  const std::string text = breakdown_text(trace, {alone, expected}, {});
  EXPECT_NE(text.find("no traffic"), std::string::npos);
  EXPECT_NE(text.find("~8 B"), std::string::npos);
}

TEST(BreakdownJson, HasTheFieldsOfTheContract) {
  const Trace trace;
  BreakdownRow row = row_of({Rank{4}, Rank{7}}, CommKind::all_gather, 2048);
  row.wire_inter_node = Bytes{1000};
  const nlohmann::ordered_json json = breakdown_json(trace, {row}, true);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["ranks"], (nlohmann::ordered_json{4, 7}));
  EXPECT_EQ(json[0]["rank_count"], 4);
  EXPECT_EQ(json[0]["op"], "all_gather");
  EXPECT_EQ(json[0]["axis"], "dp");
  EXPECT_EQ(json[0]["group_size"], 2);
  EXPECT_EQ(json[0]["phase"], "backward");
  EXPECT_EQ(json[0]["dtype"], "fp16");
  EXPECT_EQ(json[0]["message_bytes"], 2048);
  EXPECT_EQ(json[0]["calls"], 3);
  EXPECT_EQ(json[0]["total_message_bytes"], 6144);
  EXPECT_EQ(json[0]["wire_bytes_per_rank"], 6144);
  EXPECT_EQ(json[0]["wire_inter_node_bytes_per_rank"], 1000);
  EXPECT_EQ(json[0]["wire_intra_node_bytes_per_rank"], 5144);
  EXPECT_FALSE(breakdown_json(trace, {row}, false)[0].contains("wire_inter_node_bytes_per_rank"));
}

TEST(BreakdownCsv, HasATitleLineAndOneLinePerRow) {
  const Trace trace;
  EXPECT_EQ(breakdown_csv(trace, {row_of({Rank{0}, Rank{1}}, CommKind::send, 8)}, false),
            "first_rank,last_rank,op,axis,group_size,phase,dtype,message_bytes,calls,total_message_bytes,"
            "wire_bytes_per_rank,rule,tag,name,rank_count,rounding_bytes,source,verified,data_dependent,no_"
            "traffic\n"
            "0,1,send,dp,2,backward,fp16,8,3,24,24,,,,2,,,true,false,false\n");
}

TEST(GroupText, SaysWhatIsKnown) {
  EXPECT_EQ(group_text(CommKind::all_reduce, Axis::dp, 16), "dp x16");
  EXPECT_EQ(group_text(CommKind::all_reduce, Axis::unknown, 4), "x4");
  EXPECT_EQ(group_text(CommKind::all_reduce, Axis::unknown, 0), "");
  EXPECT_EQ(group_text(CommKind::all_reduce, Axis::self, 1), "self");
  EXPECT_EQ(group_text(CommKind::send, Axis::pp, 2), "pp");
  EXPECT_EQ(group_text(CommKind::recv, Axis::unknown, 2), "pair");
}

}  // namespace
}  // namespace commlens
