#include "commlens/formats/deepspeed_log/lines.hpp"

#include <tuple>

#include <gtest/gtest.h>

namespace commlens::formats::deepspeed_log {
namespace {

constexpr PrintedSize k_no_size = {.size = Bytes{-1}, .rounding = Bytes{-1}};

TEST(PrintedSize, IsTheNearestByteAndHalfTheLastDigit) {
  // number, unit, bytes, half width rounded up: half a hundredth of 1024, 1024^2, 1024^3 is 5.12, 5242.88,
  // 5368709.12.
  const std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t>> cases = {
      {"0", "B", 0, 0},
      {"512.0", "B", 512, 0},
      {"2.0", "KB", 2048, 6},
      {"22.21", "KB", 22743, 6},     // 22743.04
      {"1024.0", "KB", 1048576, 6},  // rounded up to the next unit's size
      {"98.25", "MB", 103022592, 5243},
      {"268.66", "MB", 281710428, 5243},         // 281710428.16
      {"1.45", "GB", 1556925645, 5368710},       // 1556925644.8
      {"1.0", "TB", 1099511627776, 5497558139},  // half width 5497558138.88
      {"2.001", "KB", 2049, 1},                  // another tool's third digit: 0.512
  };
  for (const auto& [number, unit, bytes, rounding] : cases) {
    const PrintedSize size = printed_size(number, unit).value_or(k_no_size);
    EXPECT_EQ(size.size.value, bytes) << number << unit;
    EXPECT_EQ(size.rounding.value, rounding) << number << unit;
  }
}

TEST(PrintedSize, RefusesWhatIsNoSize) {
  for (const auto& [number, unit] :
       std::vector<std::pair<std::string, std::string>>{{"", "B"},
                                                        {".", "KB"},
                                                        {"-1", "KB"},
                                                        {"1.2.3", "KB"},
                                                        {"1e3", "KB"},
                                                        {"1", "KiB"},
                                                        {"1", ""},
                                                        {"9999999999999999999", "B"},
                                                        {"9999999", "PB"},
                                                        {"nan", "MB"}}) {
    EXPECT_FALSE(printed_size(number, unit)) << number << unit;
  }
}

// For every size, what convert_size of deepspeed/utils/comms_logging.py prints is an interval that holds the
// size.
TEST(PrintedSize, HoldsTheSizeThatWasPrinted) {
  for (const auto& [bytes, number, unit] : std::vector<std::tuple<std::int64_t, std::string, std::string>>{
           // python3: convert_size(n) for n as printed by the function quoted in
           // docs/formats/deepspeed-log.md
           {2043, "2.0", "KB"},
           {2053, "2.0", "KB"},
           {1048575, "1024.0", "KB"},
           {22738, "22.21", "KB"},
           {22748, "22.21", "KB"},
           {281705186, "268.66", "MB"},
           {281715671, "268.66", "MB"}}) {
    const PrintedSize size = printed_size(number, unit).value_or(k_no_size);
    EXPECT_LE(std::abs(size.size.value - bytes), size.rounding.value) << bytes;
  }
}

TEST(DeepspeedKind, KnowsTheNamesTheLoggerUses) {
  EXPECT_EQ(deepspeed_kind("all_gather_into_tensor"), CommKind::all_gather);
  EXPECT_EQ(deepspeed_kind("_all_gather_base"), CommKind::all_gather);
  EXPECT_EQ(deepspeed_kind("reduce_scatter_tensor"), CommKind::reduce_scatter);
  EXPECT_EQ(deepspeed_kind("all_to_all_single"), CommKind::all_to_all);
  EXPECT_EQ(deepspeed_kind("isend"), CommKind::send);
  EXPECT_EQ(deepspeed_kind("irecv"), CommKind::recv);
  EXPECT_EQ(deepspeed_kind("inference_all_reduce"), CommKind::all_reduce);
  EXPECT_EQ(deepspeed_kind("log_summary_barrier"), CommKind::barrier);
  EXPECT_EQ(deepspeed_kind("monitored_barrier"), CommKind::barrier);
  EXPECT_EQ(deepspeed_kind("gather"), std::nullopt);
  EXPECT_EQ(deepspeed_kind(""), std::nullopt);
}

TEST(LoggedOp, IsANameWithOrWithoutItsCaller) {
  EXPECT_EQ(logged_op("broadcast  ").value_or(LoggedOp{}).name, "broadcast");
  const LoggedOp op =
      logged_op(" reduce_scatter_tensor | [Caller Func: reduce_scatter_fn]").value_or(LoggedOp{});
  EXPECT_EQ(op.name, "reduce_scatter_tensor");
  EXPECT_EQ(op.caller, "reduce_scatter_fn");
  EXPECT_EQ(logged_op("broadcast | [Caller Func: <module>]").value_or(LoggedOp{}).caller, "<module>");
  for (const char* const text :
       {"", "two words", "10", "-----", "broadcast | [Caller Func: cut", "a | [Caller Func: b] c"}) {
    EXPECT_FALSE(logged_op(text)) << text;
  }
}

TEST(TableRow, IsASizeACountAndFourNumbers) {
  const std::string_view row =
      "                    22.21 KB            13                  0.13                0.13                "
      "1.41  1.41";
  EXPECT_EQ(table_row(row).value_or(TableRow{}).count, 13);
  EXPECT_EQ(table_row(row).value_or(TableRow{}).size.size, Bytes{22743});
  EXPECT_EQ(table_row("0B 3 5.41 1.80 0.00 0.00").value_or(TableRow{}).size.size, Bytes{0});
  EXPECT_EQ(table_row("[1,0]<stdout>:  2.0 KB 3 5.41 1.80 nan inf").value_or(TableRow{}).count, 3);
  EXPECT_EQ(table_row("[2022-06-26 01:39:55,722] [INFO] 1: 2.0 KB 3 1 2 3 4 5 6").value_or(TableRow{}).count,
            3);
  for (const char* const text : {"", "2.0 KB", "2.0 KB 3 1 2 3", "2.0 KB 3 1 2 3 x", "2.0 KB 0 1 2 3 4",
                                 "2.0 KB 3.5 1 2 3 4", "2.0 KB -3 1 2 3 4", "2.0 kg 3 1 2 3 4"}) {
    EXPECT_FALSE(table_row(text)) << text;
  }
}

TEST(TableHeader, TellsThePrefixAndTheTableOfStragglers) {
  const TableHeader plain =
      table_header("0: Comm. Op            Message Size        Count               Total Latency(ms)")
          .value_or(TableHeader{});
  EXPECT_EQ(plain.prefix, "0: ");
  EXPECT_FALSE(plain.is_of_stragglers);
  EXPECT_TRUE(table_header("Comm. Op   Message Size   Count   Total comm lat(ms) Total straggler(ms)")
                  .value_or(TableHeader{})
                  .is_of_stragglers);
  EXPECT_FALSE(table_header("Comm. Op and nothing else"));
}

TEST(VerboseLine, IsReadWithAndWithoutTheRankAndTheCaller) {
  // deepspeed docs/_tutorials/comms-logging.md
  const VerboseLine old_line =
      verbose_line(
          "[2022-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | comm op: "
          "reduce_scatter_tensor | "
          "time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw (Gbps): 1129.23")
          .value_or(VerboseLine{});
  EXPECT_EQ(old_line.op.name, "reduce_scatter_tensor");
  EXPECT_EQ(old_line.size.size, Bytes{711836303});  // 678.86 * 1048576 = 711836303.36
  const VerboseLine with_caller = verbose_line(
                                      "comm op: broadcast | [Caller Func: _broadcast_model] | time (ms): "
                                      "4138.40 | msg size: 1.12 KB | algbw "
                                      "(Gbps): 0.00")
                                      .value_or(VerboseLine{});
  EXPECT_EQ(with_caller.op.caller, "_broadcast_model");
  EXPECT_EQ(with_caller.size.size, Bytes{1147});  // 1146.88
  EXPECT_FALSE(verbose_line("comm op: broadcast | time (ms): 4138.40 | msg size: "));
  EXPECT_FALSE(verbose_line("comm op: broadcast"));
}

}  // namespace
}  // namespace commlens::formats::deepspeed_log
