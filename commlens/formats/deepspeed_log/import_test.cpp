#include "commlens/formats/deepspeed_log/import.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats::deepspeed_log {
namespace {

using test_support::ScratchDirectory;

constexpr std::string_view k_log_header =
    "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "
    "tput_avg (Gbps)     busbw_avg (Gbps)    \n";

Result<Trace> read_log(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("run.log", text));
}

/// One op of a trace with how often it occurs: "broadcast 2048+-6 -> 2048 x146".
std::vector<std::string> rows_of(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::int64_t> counts(trace->ops().size());
  for (const CommEvent& event : trace->streams.at(0).events) {
    ++counts[static_cast<std::size_t>(event.op)];
  }
  std::vector<std::string> rows;
  for (std::size_t row = 0; row < counts.size(); ++row) {
    const CommOp& op = trace->ops()[row];
    const std::string& name = trace->names.text(op.kind == CommKind::other ? op.name : op.site);
    rows.push_back(std::string(name_of(op.kind)) + (name.empty() ? "" : "(" + name + ")") + " " +
                   std::to_string(op.input.value) + "->" + std::to_string(op.output.value) + " +-" +
                   std::to_string(op.rounding.value) + " x" + std::to_string(counts[row]));
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(DeepspeedLog, ReadsASummaryTable) {
  const Result<Trace> trace =
      read_log(std::string(k_log_header) +
               "broadcast\n"
               "                    2.0 KB              146                 11.12  0.08  0.43  0.41\n"
               "                    98.25 MB            1                   8317.12 8317.12 0.20 0.19\n"
               "reduce_scatter_tensor\n"
               "                    678.86 MB           40                  602.29 9.69 1468.06 1376.31\n"
               "all_gather_into_tensor\n"
               "                    512.0 B             2                   1 1 1 1\n"
               "isend\n"
               "                    16.0 KB             3                   1 1 1 1\n"
               "irecv\n"
               "                    16.0 KB             4                   1 1 1 1\n"
               "gather\n"
               "                    8.0 B               5                   1 1 1 1\n"
               "log_summary_barrier\n"
               "                    0B                  1                   0.11 0.11 0.00 0.00\n");
  EXPECT_EQ(rows_of(trace), (Rows{"broadcast 2048->2048 +-6 x146", "broadcast 103022592->103022592 +-5243 x1",
                                  "reduce_scatter 711836303->0 +-5243 x40", "all_gather 512->0 +-0 x2",
                                  "send 16384->0 +-6 x3", "recv 0->16384 +-6 x4", "other(gather) 8->8 +-0 x5",
                                  "barrier 0->0 +-0 x1"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.accounting, Accounting::comms_logger);
  EXPECT_EQ(trace->provenance.source, Source::imported);
  EXPECT_TRUE(trace->provenance.skipped.empty());
  EXPECT_EQ(trace->streams.size(), 1U);
  EXPECT_EQ(trace->groups.size(trace->ops()[0].group), 0);
  EXPECT_TRUE(trace->iterations().empty());
}

TEST(DeepspeedLog, TakesTheLastTableAndCountsTheRest) {
  const std::string one = std::string(k_log_header) + "all_reduce\n   2.0 KB  1  1 1 1 1\n";
  const std::string two = std::string(k_log_header) + "all_reduce\n   2.0 KB  2  1 1 1 1\n";
  const std::string verbose =
      "rank=0 | comm op: all_reduce | time (ms): 1.00 | msg size: 2.0 KB | algbw (Gbps): 1\n";
  const Result<Trace> trace = read_log(verbose + one + "step 7\nloss: 2.0\n" + verbose + two + "Done\n");
  EXPECT_EQ(rows_of(trace), Rows{"all_reduce 2048->2048 +-6 x2"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{
                {"summary table before the last (the logger never starts anew)", 1},
                {"verbose line (the summary table counts its call)", 2}}));
}

TEST(DeepspeedLog, IgnoresTheTableOfStragglers) {
  const Result<Trace> trace = read_log(
      std::string(k_log_header) +
      "all_reduce\n   2.0 KB  7  1 1 1 1\n"
      "_______________________________\nBreakdown with straggler effect\n-------------------------------\n"
      "Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) "
      "Avg comm lat(ms)    Avg straggler(ms)   \n"
      "all_reduce\n   2.0 KB  7  1 1 1 1\n");
  EXPECT_EQ(rows_of(trace), Rows{"all_reduce 2048->2048 +-6 x7"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"straggler table (repeats the counts)", 1}}));
}

TEST(DeepspeedLog, SeesThroughWhatLaunchersAndOtherRanksPrint) {
  for (const std::string prefix : {"0: ", "[1,0]<stdout>:", "node-1: [rank0]: ", "(worker pid=12) "}) {
    const Result<Trace> trace =
        read_log(fmt::format("noise\n{0}{1}{0}broadcast\nDone\n{0}   2.0 KB  2  1 1 1 1\n[rank 3] loss 1.5\n"
                             "{0}   0B  1  1 1 0 0\n",
                             prefix, k_log_header));
    EXPECT_EQ(rows_of(trace), (Rows{"broadcast 2048->2048 +-6 x2", "broadcast 0->0 +-0 x1"})) << prefix;
  }
}

TEST(DeepspeedLog, SeesThroughAProgressBar) {
  const Result<Trace> trace = read_log(" 10%|#   |\r100%|####|\r" + std::string(k_log_header) +
                                       "all_reduce\r\n 50%|##|\r   2.0 KB  2  1 1 1 1\r\n");
  EXPECT_EQ(rows_of(trace), Rows{"all_reduce 2048->2048 +-6 x2"});
}

TEST(DeepspeedLog, PrefersAnEarlierTableToOneThatIsCutOff) {
  const std::string whole =
      std::string(k_log_header) + "all_reduce\n   2.0 KB  1  1 1 1 1\nbroadcast\n   8.0 B  1  1 1 1 1\n";
  for (const std::string cut :
       {"all_reduce\n   2.0 KB  2  1 1 1 1\nbroadcast\n", "all_reduce\n   2.0 KB  2  1 1 1 1\n   4.0",
        "all_reduce\n   2.0 KB", "all_reduce\n", ""}) {
    const Result<Trace> trace = read_log(fmt::format("{}{}{}", whole, k_log_header, cut));
    EXPECT_EQ(rows_of(trace), (Rows{"all_reduce 2048->2048 +-6 x1", "broadcast 8->8 +-0 x1"})) << cut;
  }
}

TEST(DeepspeedLog, UsesATableThatIsCutOffWhenItIsTheOnlyOne) {
  const Result<Trace> trace =
      read_log(std::string(k_log_header) + "all_reduce\n   2.0 KB  2  1 1 1 1\n   4.0 K");
  EXPECT_EQ(rows_of(trace), Rows{"all_reduce 2048->2048 +-6 x2"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"end of the summary table (the log is cut off)", 1}}));
}

TEST(DeepspeedLog, ReadsVerboseLinesWhereThereIsNoTable) {
  const Result<Trace> trace = read_log(
      "[Rank 0] rank=0 | comm op: all_gather_into_tensor | time (ms): 0.11 | msg size: 6.0 MB | algbw "
      "(Gbps): 954.41\n"
      "comm op: all_gather_into_tensor | time (ms): 0.08 | msg size: 6.0 MB | algbw (Gbps): 1293.47\n"
      "comm op: all_reduce | [Caller Func: average\xff] | time (ms): 0.08 | msg size: 0B | algbw (Gbps): "
      "1.0\n");
  EXPECT_EQ(rows_of(trace),
            (Rows{"all_gather 6291456->0 +-5243 x2", "all_reduce(average\xef\xbf\xbd) 0->0 +-0 x1"}));
}

TEST(DeepspeedLog, RefusesDamagedCountsAndLogsWithoutRows) {
  const std::string table = std::string(k_log_header) + "all_reduce\n";
  EXPECT_NE(rows_of(read_log(table + "2.0 KB 50000001 1 1 1 1\n"))[0].find("more than 50000000 calls"),
            std::string::npos);
  EXPECT_NE(
      rows_of(read_log(table + "2.0 KB 50000000 1 1 1 1\n4.0 KB 1 1 1 1 1\n"))[0].find("more than 50000000"),
      std::string::npos);
  for (const std::string& text : {std::string(), table, std::string("hello\n"), std::string(1000, '\0')}) {
    EXPECT_NE(rows_of(read_log(text))[0].find("run.log: no row of DeepSpeed's comms logger"),
              std::string::npos);
  }
}

TEST(DeepspeedLog, IsFoundFarIntoALog) {
  const ScratchDirectory directory;
  std::string text;
  for (int line = 0; line < 20'000; ++line) {
    text += "[2024-01-01] [INFO] step loss and so on\n";
  }
  const std::string head = text.substr(0, 65'536);
  EXPECT_TRUE(sniff(directory.write("run.log", text + std::string(k_log_header)), head));
  EXPECT_FALSE(sniff(directory.write("run.log", text), head));
  EXPECT_FALSE(sniff(directory.write("run.log", ""), ""));
}

class PublishedLog : public ::testing::Test {
 protected:
  static Result<Trace> read(std::string_view name) {
    return deepspeed_log::read(std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) /
                               "golden/published/deepspeed" / name);
  }
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
};

TEST_F(PublishedLog, OfPullRequest2012HasTheseRows) {
  EXPECT_EQ(rows_of(read("pr_2012_log_summary_excerpt.txt")),
            (Rows{"broadcast 0->0 +-0 x2", "broadcast 2048->2048 +-6 x146", "broadcast 6144->6144 +-6 x24",
                  "broadcast 6461->6461 +-6 x1", "broadcast 8192->8192 +-6 x24",
                  "broadcast 2097152->2097152 +-5243 x24"}));
}

TEST_F(PublishedLog, OfIssue7019HasTheseRows) {
  EXPECT_EQ(rows_of(read("issue_7019_log_summary_excerpt.txt")),
            (Rows{"broadcast 0->0 +-0 x1", "broadcast 10240->10240 +-6 x3", "broadcast 22743->22743 +-6 x1",
                  "broadcast 24013->24013 +-6 x2", "broadcast 11796480->11796480 +-5243 x1",
                  "broadcast 52428800->52428800 +-5243 x1", "broadcast 1556925645->1556925645 +-5368710 x2",
                  "barrier 0->0 +-0 x3"}));
}

TEST_F(PublishedLog, OfTheTutorialIsItsLastTable) {
  EXPECT_EQ(rows_of(read("comms-logging.md")),
            (Rows{"broadcast(_broadcast_model) 2048->2048 +-6 x146",
                  "broadcast(_broadcast_model) 103022592->103022592 +-5243 x1",
                  "reduce_scatter(reduce_scatter_fn) 711836303->0 +-5243 x80"}));
}

}  // namespace
}  // namespace commlens::formats::deepspeed_log
