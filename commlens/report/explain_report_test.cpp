#include "commlens/report/explain_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/compare/causes.hpp"
#include "commlens/report/comparison_report.hpp"

namespace commlens {
namespace {

Explanation mask_and_partition() {
  Explanation explanation;
  explanation.iteration = 1;
  explanation.ranks = 8;
  ExplainedGroup mask{cause_named("attention_mask"), {}};
  mask.cause.source = "pipe/engine.py:985";
  mask.rows.push_back({Axis::pp, CommKind::send, "pipeline.attention_mask", "pipe/engine.py:985", 0, 16,
                       Bytes{0}, Bytes{131072}});
  ExplainedGroup partition{cause_named("stage_partition"), {}};
  partition.rows.push_back({Axis::dp, CommKind::all_gather, "", "", 0, 0, Bytes{1024}, Bytes{1024}});
  explanation.explained = {mask, partition};
  return explanation;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    longest = std::max(longest, display_width(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

TEST(ExplanationText, ShowsBothSidesOfWhatMoves) {
  const std::string text = explanation_text(mask_and_partition(), {});
  EXPECT_NE(text.find("+131,072"), std::string::npos) << text;
  EXPECT_NE(text.find("-1,024 +1,024"), std::string::npos) << text;
  EXPECT_NE(text.find("[pipe/engine.py:985]"), std::string::npos) << text;
  EXPECT_NE(text.find("explained by 2 causes: +131,072 bytes in +16 calls; nothing is left unexplained\n"),
            std::string::npos)
      << text;
}

TEST(ExplanationText, FitsEightyColumns) {
  EXPECT_LE(longest_line(explanation_text(mask_and_partition(), {.width = 80})), 80U)
      << explanation_text(mask_and_partition(), {.width = 80});
}

TEST(ExplanationText, ListsTheUnexplainedLast) {
  Explanation explanation = mask_and_partition();
  explanation.unexplained.push_back({Axis::dp, CommKind::broadcast, "", "", 0, 2, Bytes{0}, Bytes{56}});
  explanation.notes = {"a note"};
  const std::string text = explanation_text(explanation, {});
  EXPECT_EQ(text.find("nothing is left unexplained"), std::string::npos);
  EXPECT_LT(text.find("attention mask"), text.find("unexplained: no rule")) << text;
  EXPECT_NE(text.find("+56"), std::string::npos) << text;
  EXPECT_NE(text.find("a note\n"), std::string::npos) << text;
}

TEST(ExplanationText, OfNothingIsEmpty) { EXPECT_EQ(explanation_text({}, {}), ""); }

TEST(ExplanationJson, HoldsCausesRowsAndWhatIsLeft) {
  nlohmann::ordered_json json;
  add_explanation(mask_and_partition(), json);
  EXPECT_EQ(json["explained"][0]["cause"], "attention_mask");
  EXPECT_EQ(json["explained"][0]["more_message_bytes_in_b_all_ranks"], 131072);
  EXPECT_EQ(json["explained"][1]["rows"][0]["message_bytes_only_a_all_ranks"], 1024);
  EXPECT_EQ(json["unexplained"], nlohmann::ordered_json::array());
}

TEST(ExplanationCsv, HasLinesOfItsOwnForWhatEachCauseAdds) {
  const Explanation explanation = mask_and_partition();
  const std::string text = volumes_csv({}, &explanation);
  EXPECT_NE(
      text.find("pp,send,,,,,attention_mask,pipeline.attention_mask,pipe/engine.py:985,0,16,0,131072,\n"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace commlens
