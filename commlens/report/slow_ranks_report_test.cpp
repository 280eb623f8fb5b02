#include "commlens/report/slow_ranks_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

/// Rank 0 was not compared, rank 2 is slow; two communicators of the same ranks.
SlowRanks two_groups() {
  SlowRanks slow;
  const std::vector<Rank> members = {Rank{1}, Rank{2}};
  slow.groups = {{.axis = Axis::dp, .members = members, .communicator = CommunicatorId{7}, .blocks = 4},
                 {.axis = Axis::dp, .members = members, .communicator = CommunicatorId{8}, .differing = 2}};
  slow.ranks = {
      {.rank = Rank{0}, .between_calls = milliseconds(10), .in_calls = milliseconds(30)},
      {.rank = Rank{1}, .between_calls = milliseconds(10), .in_calls = milliseconds(40), .blocks = 4},
      {.rank = Rank{2},
       .between_calls = milliseconds(40),
       .in_calls = milliseconds(10),
       .blocks = 4,
       .slow = 3,
       .excess = milliseconds(30)}};
  slow.blocks = 4;
  slow.differing = 2;
  return slow;
}

TEST(SlowRanksReport, NamesSlowRanksUnderTheTable) {
  EXPECT_EQ(slow_ranks_text(two_groups(), {}),
            "\n"
            "who is slow: time between calls, by each rank's own clock\n"
            "rank  between calls   share  in calls  slow blocks  of  more than the median  group\n"
            "   0        10.0 ms  25.0 %   30.0 ms            -   0                     -\n"
            "   1        10.0 ms  20.0 %   40.0 ms            0   4                  0 ns  dp x2\n"
            "   2        40.0 ms  80.0 %   10.0 ms            3   4               30.0 ms  dp x2\n"
            "rank 2 is slow: in 3 of 4 blocks of dp x2 it spent 30.0 ms more between its calls than the "
            "median rank\n"
            "skipped in the blocks: 2 parts in which the members of a group made different calls or numbers "
            "of calls; a rank that lacks records seems to work in their place\n");
}

TEST(SlowRanksReport, SaysThatNoneIs) {
  SlowRanks slow = two_groups();
  slow.ranks[2].slow = 0;
  EXPECT_EQ(slow_ranks_verdicts(slow),
            (Texts{"no rank is slow: none stands out from its group in any block"}));
}

TEST(SlowRanksReport, NamesTheRankThatWasSlowForAWhile) {
  SlowRanks slow = two_groups();
  slow.ranks[2].slow = 1;
  EXPECT_EQ(
      slow_ranks_verdicts(slow),
      (Texts{"no rank is slow in half of the blocks; rank 2 stands out for a while: in 1 of 4 blocks of dp "
             "x2, by 30.0 ms"}));
}

// Non-blocking calls that are open all the time: 3 of 143 ms are between calls.
TEST(SlowRanksReport, ReportsWhereItIsNotKnown) {
  SlowRanks slow = two_groups();
  slow.ranks[2].slow = 0;
  for (RankWork& row : slow.ranks) {
    row.between_calls = milliseconds(1);
  }
  slow.ranks[0].in_calls = milliseconds(90);
  EXPECT_EQ(slow_ranks_verdicts(slow), (Texts{"who is slow cannot be determined: calls are open for 97.9 % "
                                              "of the time, and what ranks do beneath "
                                              "them is not seen"}));
}

TEST(SlowRanksReport, IsEmptyWhereNothingWasCompared) {
  EXPECT_EQ(slow_ranks_text({}, {}), "");
  EXPECT_TRUE(slow_ranks_verdicts({}).empty());
}

TEST(SlowRanksReport, NamesAFewOfManySlowRanks) {
  SlowRanks slow = two_groups();
  slow.ranks.assign(7, slow.ranks[2]);
  const Texts lines = slow_ranks_verdicts(slow);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines.back(), "and 3 more ranks");
}

TEST(SlowRanksReport, JsonDistinguishesCommunicators) {
  const nlohmann::ordered_json json = slow_ranks_json(two_groups());
  EXPECT_EQ(json["by_rank"][0]["group_row"], nullptr);
  EXPECT_FALSE(json["by_rank"][0].contains("communicator"));
  EXPECT_EQ(json["by_rank"][2]["slow"], true);
  EXPECT_EQ(json["by_rank"][2]["excess_ns"], 30'000'000);
  EXPECT_EQ(json["by_rank"][2]["communicator"], text_of(CommunicatorId{7}));
  EXPECT_EQ(json["by_rank"][2]["group_row"], 0);
  EXPECT_EQ(json["groups"][1]["communicator"], text_of(CommunicatorId{8}));
  EXPECT_EQ(json["groups"][1]["parts_not_compared"], 2);
}

// A world of 2,000 ranks: repeating its members for each of them took 4 million numbers.
TEST(SlowRanksReport, JsonIsLinearInTheRanks) {
  SlowRanks slow;
  slow.groups = {{.axis = Axis::world, .blocks = 1}};
  for (Rank rank{0}; rank.value < 2000; ++rank.value) {
    slow.groups[0].members.push_back(rank);
    slow.ranks.push_back({.rank = rank, .blocks = 1});
  }
  EXPECT_LT(slow_ranks_json(slow).dump().size(), 2000U * 200);
}

}  // namespace
}  // namespace commlens
