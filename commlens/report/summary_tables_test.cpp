#include "commlens/report/summary_tables.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/report/table_json.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

SummaryRow all_reduce() {
  SummaryRow row;
  row.kind = CommKind::all_reduce;
  row.axis = Axis::dp;
  row.group_size = 2;
  row.calls = 3;
  row.smallest = Bytes{1};
  row.largest = Bytes{2};
  row.message = row.wire = Bytes{75};
  return row;
}

SummaryRow broadcast() {
  SummaryRow row;
  row.kind = CommKind::broadcast;
  row.axis = Axis::self;
  row.group_size = 1;
  row.calls = 1;
  row.smallest = row.largest = row.message = Bytes{25};
  return row;
}

/// The all_reduce takes 6 x 2 µs at 1 GB/s, the broadcast 3 µs once.
std::vector<SummaryRow> timed_rows() {
  std::vector<SummaryRow> rows = {all_reduce(), broadcast()};
  rows[0].time = TimeStats{.calls = 6,
                           .total = nanoseconds(12'000),
                           .shortest = nanoseconds(1900),
                           .longest = nanoseconds(2200),
                           .p50 = nanoseconds(2000),
                           .p50_low = nanoseconds(1900),
                           .p50_high = nanoseconds(2200),
                           .p95 = nanoseconds(2200),
                           .has_interval = true};
  rows[0].algorithm_bandwidth = rows[0].bus_bandwidth = BytesPerSecond{1e9};
  const nanoseconds once(3000);
  rows[1].time = TimeStats{1, once, once, once, once, once, once, once, false, true};
  return rows;
}

TEST(VolumesText, ShowsSharesOfTheMessageBytes) {
  const Trace trace;
  const std::vector<SummaryRow> rows = {all_reduce(), broadcast()};
  EXPECT_EQ(volumes_text({trace, rows}, {}),
            "op          group  calls  smallest  largest  message bytes   share  wire bytes\n"
            "all_reduce  dp x2      3       1 B      2 B           75 B  75.0 %        75 B\n"
            "broadcast   self       1      25 B     25 B           25 B  25.0 %  no traffic\n");
}

TEST(VolumesText, SaysWhichPhaseAndIteration) {
  const Trace trace;
  std::vector<SummaryRow> rows = {all_reduce(), all_reduce()};
  rows[0].phase = Phase::forward;
  rows[0].iteration = 12;
  rows[1].phase = Phase::other;
  rows[1].iteration = k_unknown_iteration;
  EXPECT_EQ(volumes_text({trace, rows}, {.width = 90}),
            "op          group  phase    iteration  calls  largest  message bytes   share  wire bytes\n"
            "all_reduce  dp x2  forward         12      3      2 B           75 B  50.0 %        75 B\n"
            "all_reduce  dp x2  other      unknown      3      2 B           75 B  50.0 %        75 B\n"
            "hidden, too narrow: smallest (see --format csv or a wider terminal)\n");
}

TEST(TimesText, IsEmptyWithoutTimes) {
  const Trace trace;
  const std::vector<SummaryRow> rows = {all_reduce()};
  EXPECT_EQ(times_text({trace, rows}, {}), "");
}

TEST(TimesText, ShowsTimesAndBandwidths) {
  const Trace trace;
  EXPECT_EQ(times_text({trace, timed_rows(), 2, false, BytesPerSecond{4e9}}, {}),
            "op          group    total   share      P50  P50, 95 % interval      P95     alg bw     bus bw  "
            "of link\n"
            "all_reduce  dp x2  12.0 µs  80.0 %  2.00 µs  1.90 µs to 2.20 µs  2.20 µs  1.00 GB/s  1.00 GB/s  "
            " 25.0 %\n"
            "broadcast   self   3.00 µs  20.0 %  3.00 µs                   -  3.00 µs          -          -  "
            "      -\n"
            "P50 and P95 are of one call, and exact\n");
}

TEST(TimesText, MarksQuantilesOfAHistogram) {
  const Trace trace;
  std::vector<SummaryRow> rows = timed_rows();
  rows[0].time->exact = false;
  const std::string text = times_text({trace, rows}, {.width = 80});
  EXPECT_EQ(text,
            "op          group    total   share       P50       P95     alg bw     bus bw\n"
            "all_reduce  dp x2  12.0 µs  80.0 %  ~2.00 µs  ~2.20 µs  1.00 GB/s  1.00 GB/s\n"
            "broadcast   self   3.00 µs  20.0 %   3.00 µs   3.00 µs          -          -\n"
            "hidden, too narrow: P50, 95 % interval (see --format csv or a wider terminal)\n"
            "P50 and P95 are of one call; those marked ~ (1 of 2 rows) come from a histogram,\n"
            "  within 1 %\n");
}

TEST(SummaryRowsJson, KeysEndInUnitAndScope) {
  const Trace trace;
  const nlohmann::ordered_json json =
      rows_json(summary_table({trace, timed_rows(), 2, false, BytesPerSecond{4e9}}));
  EXPECT_EQ(json[0]["message_bytes_all_ranks"], 75);
  EXPECT_EQ(json[0]["share_of_message_bytes"], 0.75);
  EXPECT_EQ(json[0]["wire_bytes_mean_per_rank"], 37.5);
  EXPECT_EQ(json[0]["share_of_time"], 0.8);
  EXPECT_EQ(json[0]["time"]["p50_low_ns"], 1900);
  EXPECT_EQ(json[0]["time"]["mean_ns"], 2000.0);
  EXPECT_EQ(json[0]["bus_bandwidth_bytes_per_s"], 1e9);
  EXPECT_EQ(json[0]["bus_share_of_link"], 0.25);
  EXPECT_TRUE(json[1]["time"]["p50_low_ns"].is_null());
  EXPECT_TRUE(json[1]["bus_bandwidth_bytes_per_s"].is_null());
}

TEST(SummaryRows, LeaveOpenWhatAGroupOfUnknownSizePutsOnTheWire) {
  const Trace trace;
  SummaryRow unknown = all_reduce();
  unknown.group_size = 0;
  unknown.wire = Bytes{};
  const SummaryTables tables{trace, {all_reduce(), unknown}, 2};
  const nlohmann::ordered_json json = rows_json(summary_table(tables));
  EXPECT_EQ(json[0]["wire_bytes_all_ranks"], 75);
  EXPECT_TRUE(json[1]["wire_bytes_all_ranks"].is_null());
  EXPECT_TRUE(json[1]["wire_bytes_mean_per_rank"].is_null());
  const std::string csv = summary_table(tables).csv();
  EXPECT_NE(csv.find("all_reduce,,dp,0,3,1,2,75,,"), std::string::npos) << csv;
}

/// Messages between unknown ranks (the last row) are on the wire once, but may stay on a node or leave it.
TEST(SummaryRows, LeaveOpenWhatLeavesTheNodeOfAnUnknownGroup) {
  const Trace trace;
  SummaryRow unknown = all_reduce();
  unknown.group_size = 0;
  unknown.wire = Bytes{};
  SummaryRow sends = all_reduce();
  sends.kind = CommKind::send;
  sends.group_size = 0;
  const SummaryTables tables{trace, {all_reduce(), broadcast(), unknown, sends}, 2, true};
  const nlohmann::ordered_json json = rows_json(summary_table(tables));
  EXPECT_EQ(json[0]["wire_inter_node_bytes_all_ranks"], 0);
  EXPECT_EQ(json[1]["wire_inter_node_bytes_all_ranks"], 0);
  EXPECT_TRUE(json[2]["wire_inter_node_bytes_all_ranks"].is_null());
  EXPECT_EQ(json[3]["wire_bytes_all_ranks"], 75);
  EXPECT_TRUE(json[3]["wire_inter_node_bytes_all_ranks"].is_null());
  const std::string csv = summary_table(tables).csv();
  EXPECT_NE(csv.find("all_reduce,,dp,2,3,1,2,75,75,0,0,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("all_reduce,,dp,0,3,1,2,75,,,0,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("send,,dp,0,3,1,2,75,75,,0,"), std::string::npos) << csv;
  const std::string text = volumes_text(tables, {});
  EXPECT_NE(text.find("        75 B         0 B\n"), std::string::npos) << text;
  EXPECT_NE(text.find("           -           -\n"), std::string::npos) << text;
  EXPECT_NE(text.find("        75 B           -\n"), std::string::npos) << text;
}

TEST(SummaryRows, OfAveragesHaveNoQuantiles) {
  const Trace trace;
  std::vector<SummaryRow> rows = timed_rows();
  rows.resize(1);
  rows[0].time = rows[0].time->sums_only();
  EXPECT_EQ(times_text({trace, rows}, {}),
            "op          group    total     alg bw     bus bw\n"
            "all_reduce  dp x2  12.0 µs  1.00 GB/s  1.00 GB/s\n");
  const nlohmann::ordered_json json = rows_json(summary_table({trace, rows, 2}))[0];
  EXPECT_EQ(json["time"]["time_ns_all_ranks"], 12'000);
  EXPECT_EQ(json["time"]["mean_ns"], 2000.0);
  for (const char* const key :
       {"shortest_ns", "p50_ns", "p50_low_ns", "p50_high_ns", "p95_ns", "longest_ns", "exact_quantiles"}) {
    EXPECT_TRUE(json["time"][key].is_null()) << key;
  }
  EXPECT_TRUE(json["share_of_time"].is_null());
  EXPECT_EQ(json["bus_bandwidth_bytes_per_s"], 1e9);
  const std::string csv = summary_table({trace, rows}).csv();
  EXPECT_NE(csv.find(",75,75,6,12000,,,,,,2000,,,1000000000,1000000000,"), std::string::npos) << csv;
}

TEST(SummaryRowsCsv, LeavesUnknownCellsEmpty) {
  const Trace trace;
  std::vector<SummaryRow> rows = timed_rows();
  rows[1].time.reset();
  EXPECT_EQ(summary_table({trace, rows, 2}).csv(),
            "op,name,axis,group_size,calls_all_ranks,smallest_message_bytes,largest_message_bytes,"
            "message_bytes_all_ranks,wire_bytes_all_ranks,timed_calls_all_ranks,time_ns_all_ranks,p50_ns,"
            "p50_low_ns,p50_high_ns,p95_ns,exact_quantiles,mean_ns,shortest_ns,longest_ns,"
            "algorithm_bandwidth_bytes_per_s,bus_bandwidth_bytes_per_s,wire_bytes_mean_per_rank,"
            "share_of_message_bytes,share_of_time\n"
            "all_reduce,,dp,2,3,1,2,75,75,6,12000,2000,1900,2200,2200,true,2000,1900,2200,1000000000,"
            "1000000000,37.5,"
            "0.75,1\n"
            "broadcast,,self,1,1,25,25,25,0,0,,,,,,,,,,,,0,0.25,\n");
}

}  // namespace
}  // namespace commlens
