#include "commlens/report/cold_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

TimeStats alike(std::int64_t calls, nanoseconds each) {
  return {calls, each * calls, each, each, each, each, each, each, calls >= 6, true};
}

/// One call of 8 ms in the cold iteration, four of 2 ms in each of two warm ones.
ColdStart cold_start() {
  ColdStart cold;
  cold.cold_iteration = 0;
  cold.cold_ranks = 2;
  cold.warm_iterations = 2;
  cold.rows = {{CommKind::all_reduce, NameId{}, Axis::dp, 2, 1, 8, Bytes{1024}, Bytes{8192},
                alike(1, nanoseconds(8'000'000)), alike(8, nanoseconds(2'000'000))}};
  cold.first_calls = {{CommKind::all_reduce, NameId{}, Axis::dp, 2, 2, alike(2, nanoseconds(5'000'000)), 1,
                       nanoseconds(5'000'000), nanoseconds(2'000'000)}};
  return cold;
}

TEST(ColdText, ShowsHowMuchSlowerTheColdIterationIs) {
  EXPECT_EQ(
      cold_text(Trace(), cold_start(), {}),
      "op          group  cold calls  warm calls  cold bytes  warm bytes  cold P50  warm P50  cold mean  "
      "warm mean  slower\n"
      "all_reduce  dp x2           1           4    1.00 KiB    4.00 KiB   8.00 ms   2.00 ms    8.00 ms    "
      "2.00 ms   x 4.0\n"
      "warm calls and bytes: of one iteration, on average; slower: mean time of a call\n");
}

TEST(ColdText, NeedsAWarmIteration) {
  ColdStart cold = cold_start();
  cold.warm_iterations = 0;
  EXPECT_EQ(cold_text(Trace(), cold, {}), "no later iteration to compare it with\n");
  cold.cold_ranks = 0;
  EXPECT_EQ(cold_text(Trace(), cold, {}), "");
}

TEST(ColdText, OfAPredictionShowsWhetherTheCallsDiffer) {
  ColdStart cold = cold_start();
  cold.rows[0].cold.reset();
  cold.rows[0].warm.reset();
  EXPECT_NE(cold_text(Trace(), cold, {}).find("cold calls  warm calls"), std::string::npos);
  cold.rows[0].warm_calls = 2;
  cold.rows[0].warm_message = Bytes{2048};
  EXPECT_EQ(cold_text(Trace(), cold, {}),
            "the cold iteration makes the same calls as the warm ones; the trace has no times\n");
}

TEST(FirstCallsText, ShowsWhatTheyLose) {
  EXPECT_EQ(
      first_calls_text(Trace(), cold_start(), {}),
      "op          group  first calls     mean  longest  compared    first    later  slower     lost\n"
      "all_reduce  dp x2            2  5.00 ms  5.00 ms         1  5.00 ms  2.00 ms   x 2.5  3.00 ms\n"
      "compared: with the mean of later calls of the same op, size and group; lost: all ranks added up\n");
}

TEST(FirstCallsText, HasNoLossWhereFirstCallsAreFaster) {
  ColdStart cold = cold_start();
  cold.first_calls[0].compared_time = nanoseconds(1'000'000);
  EXPECT_NE(first_calls_text(Trace(), cold, {}).find("1.00 ms  2.00 ms   x 0.5     -\n"), std::string::npos)
      << first_calls_text(Trace(), cold, {});
}

TEST(FirstCallsText, IsEmptyWithoutTimes) {
  ColdStart cold = cold_start();
  cold.first_calls[0].time.reset();
  EXPECT_EQ(first_calls_text(Trace(), cold, {}), "");
}

TEST(ColdJson, HasBothParts) {
  const nlohmann::ordered_json json = cold_json(Trace(), cold_start());
  EXPECT_EQ(json["cold_iteration"], 0);
  EXPECT_EQ(json["ops"][0]["cold_time"]["time_ns_all_ranks"], 8'000'000);
  EXPECT_EQ(json["ops"][0]["warm_calls_all_ranks"], 8);
  EXPECT_EQ(json["first_calls"][0]["later_time_ns_all_ranks"], 2'000'000);
}

}  // namespace
}  // namespace commlens
