#include "commlens/report/advice_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

Advice sample_advice() {
  Advice advice;
  advice.cost.per_rank = {29, 27, Bytes{8'427'528}, Bytes{6'320'652}, {}};
  advice.cost.all_ranks = {116, 108, Bytes{33'710'112}, Bytes{25'282'608}, {}};
  advice.cost.memory = Bytes{1 << 20};
  advice.small = {.limit = Bytes{65536}, .calls = 108, .all_calls = 116};
  Recommendation made{.id = "persistence_threshold",
                      .title = "Gather small parameters together with their layers",
                      .reason = "because.",
                      .flag = "--persistence-threshold 0",
                      .setting = "stage3_param_persistence_threshold: 0"};
  made.before = made.after = advice.cost;
  made.after.per_rank.calls = 3;
  made.after.per_rank.wire = Bytes{6'320'653};
  made.after.memory = Bytes{(1 << 20) - 1024};
  made.time_saved = std::chrono::microseconds(26);
  made.time_source = "medians";
  advice.recommended.push_back(made);
  advice.not_advised = {"one thing"};
  advice.not_judged = {"another"};
  return advice;
}

TEST(AdviceText, SaysWhatChangesByHowMuchAndHow) {
  EXPECT_EQ(advice_text(sample_advice(), {}),
            "one steady iteration, of the rank that sends most: 29 calls (27 small), 8.04 MiB message bytes, "
            "6.03 MiB "
            "wire bytes\n"
            "messages below 64.00 KiB: 108 of 116 calls of all ranks (predicted; no times)\n"
            "memory of the fullest rank: 1.00 MiB (estimated)\n"
            "\n"
            "1. Gather small parameters together with their layers\n"
            "   why      because.\n"
            "   changes  a rank: calls -26 (-90 %), wire +1 B (< 0.1 %), message as many; memory -1.00 KiB; "
            "time -26.0 µs, "
            "estimated\n"
            "   set      stage3_param_persistence_threshold: 0\n"
            "   try      commlens predict with --persistence-threshold 0\n"
            "   time     estimated: medians\n"
            "\n"
            "Each is predicted with that one setting changed; savings of several do not add up. Per "
            "iteration, of the "
            "rank that sends most.\n"
            "\n"
            "tried, and left alone:\n"
            "- one thing\n"
            "not judged:\n"
            "- another\n");
}

TEST(AdviceText, FitsATerminal) {
  Advice advice = sample_advice();
  advice.recommended.front().reason =
      std::string(30, 'a') + " " + std::string(30, 'b') + " " + std::string(30, 'c');
  const std::string text = advice_text(advice, {.width = 80});
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    EXPECT_LE(display_width(text.substr(start, end - start)), 80u) << text.substr(start, end - start);
    start = end + 1;
  }
  EXPECT_NE(text.find("\n            " + std::string(30, 'c')), std::string::npos) << text;
}

TEST(AdviceText, ReportsThatThereIsNothingToRecommend) {
  const std::string text = advice_text({}, {});
  EXPECT_NE(text.find("nothing to advise: no setting that was tried saves enough"), std::string::npos)
      << text;
}

TEST(AdviceJson, HasSavingsOfARankAndBothCosts) {
  const nlohmann::ordered_json json = advice_json(sample_advice());
  const auto& made = json["recommendations"][0];
  EXPECT_EQ(made["calls_saved_per_rank"], 26);
  EXPECT_EQ(made["wire_bytes_saved_per_rank"], -1);
  EXPECT_EQ(made["memory_added_bytes_per_rank"], -1024);
  EXPECT_EQ(made["time_saved_ns"], 26'000);
  EXPECT_EQ(made["before"]["all_ranks"]["calls"], 116);
  EXPECT_EQ(json["small_messages"]["time_ns_all_ranks"], nullptr);
}

TEST(AdviceCsv, HasALinePerRecommendation) {
  EXPECT_EQ(
      advice_csv(sample_advice()),
      "id,title,flag,setting,required,calls_saved_per_rank,message_bytes_saved_per_rank,wire_bytes_saved_per_"
      "rank,"
      "wire_inter_node_bytes_saved_per_rank,memory_added_bytes_per_rank,bubble_share_saved,time_saved_ns,"
      "reason,verified,time_source\n"
      "persistence_threshold,Gather small parameters together with their layers,--persistence-threshold 0,"
      "stage3_param_persistence_threshold: 0,false,26,0,-1,0,-1024,0,26000,because.,true,medians\n");
}

}  // namespace
}  // namespace commlens
