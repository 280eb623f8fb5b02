#include "commlens/report/whole_job_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

/// Three of A's calls against two of B's, whose groups are known by size and whose iterations are not.
WholeJobComparison three_against_two() {
  WholeJobComparison comparison;
  comparison.iterations = {-1, 0};
  comparison.collectives = GroupDetail::size;
  comparison.messages = GroupDetail::nothing;
  comparison.ranks = 1;
  comparison.ranks_only_b = 2;
  comparison.calls_a = 3;
  comparison.calls_b = 2;
  comparison.exact = 2;
  comparison.ignored = 4;
  comparison.rows = {{CommKind::all_reduce, "", 2, Bytes{4096}, 2, 1, 1},
                     {CommKind::other, "Gather", 0, Bytes{8}, 1, 1, 1}};
  return comparison;
}

TEST(WholeJobReport, ReportsWhatItComparedAndWhatNot) {
  EXPECT_EQ(whole_job_text(three_against_two(), {}),
            "different: 2 of 3 calls equal, 1 only in A (1 rank, the whole job)\n"
            "B does not say which iteration a call is of: counted are the calls of each rank per op, group "
            "and message "
            "size, all of B against iterations -1 to 0 of A\n"
            "not compared: their order, element types and roots\n"
            "groups of collectives: compared by their size, because one side does not report their ranks\n"
            "send and recv: compared without their peer rank, because one side does not report it\n"
            "not compared: 2 ranks, which only B has\n"
            "skipped: 4 barriers and ignored calls of both sides\n"
            "\n"
            "         op          group  message  calls A  calls B  equal\n"
            "differs  all_reduce  x2     4,096 B        2        1      1\n"
            "         Gather                 8 B        1        1      1\n");
}

TEST(WholeJobReport, HasEverythingAsJsonAndCsv) {
  const nlohmann::json json = nlohmann::json::parse(whole_job_json(three_against_two()).dump());
  EXPECT_EQ(json["schema"], "commlens.compare_whole_job/2");
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["iterations_unknown"], "b");
  EXPECT_EQ(json["groups_of_collectives"], "size");
  EXPECT_EQ(json["groups_of_send_and_recv"], "not compared");
  EXPECT_EQ(json["rows"][0]["message_bytes"], 4096);
  EXPECT_EQ(json["rows"][0]["calls_a_all_ranks"], 2);
  EXPECT_EQ(json["rows"][1]["group_size"], nullptr);
  EXPECT_EQ(json["rows"][1]["name"], "Gather");
  EXPECT_EQ(
      whole_job_csv(three_against_two()),
      "op,name,group_size,message_bytes,calls_a_all_ranks,calls_b_all_ranks,equal_calls_all_ranks,equal\n"
      "all_reduce,,2,4096,2,1,1,false\n"
      "other,Gather,,8,1,1,1,true\n");
}

}  // namespace
}  // namespace commlens
