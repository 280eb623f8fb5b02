#include <fstream>

#include <gtest/gtest.h>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"

// Output of verbs for files whose readers skipped records, assumed values, or found averages.

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

std::string written(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
  return path.string();
}

/// NCCL's log without the rank, and a line cut off by the end of the file.
constexpr const char* k_nccl_log =
    "host:7:8 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 2 datatype 7 op 0 root 0 "
    "comm 0xa [nranks=2] stream 0xb\n"
    "host:7:8 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recv\n";

TEST(CommandImport, DistinguishesAssumedFromSkippedRecords) {
  const ScratchDirectory directory;
  const std::string log = written(directory / "nccl.log", k_nccl_log);
  const std::string trace = (directory / "trace").string();
  const Outcome imported = run_with({"import", log, "-o", trace});
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  EXPECT_EQ(imported.out,
            trace +
                ": 1 call, 1 rank; skipped: 1 line torn apart or cut off; assumed: 1 rank not reported, "
                "numbered by file or process\n");
  const Outcome summary = run_with({"summary", trace});
  EXPECT_NE(summary.out.find("covered: all but 1 line torn apart or cut off\n"
                             "assumed: 1 rank not reported, numbered by file or process\n"),
            std::string::npos)
      << summary.out;
}

/// An OSU table: 1 µs for 8 bytes, 2 µs for 16.
constexpr const char* k_osu_table =
    "# OSU MPI Allreduce Latency Test v5.8\n# Size       Avg Latency(us)\n8    1.00\n16    2.00\n";

TEST(CommandExport, WarnsThatTimesAreAverages) {
  const ScratchDirectory directory;
  const std::string table = written(directory / "osu.log", k_osu_table);
  const Outcome exported = run_with({"export", table, "--to", "calls"});
  EXPECT_EQ(exported.code, ExitCode::done);
  EXPECT_EQ(exported.err, "commlens: warning: the times of " + table +
                              " are averages over several calls each, placed end to end\n");
  EXPECT_NE(exported.out.find("\"duration_ns\":2000"), std::string::npos) << exported.out;
}

TEST(CommandImport, KeepsThatTimesAreAverages) {
  const ScratchDirectory directory;
  const std::string trace = (directory / "trace").string();
  ASSERT_EQ(run_with({"import", written(directory / "osu.log", k_osu_table), "-o", trace}).code,
            ExitCode::done);
  const std::string text = run_with({"summary", trace}).out;
  EXPECT_NE(text.find("times: averages over several calls each, placed end to end,"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("P50"), std::string::npos) << text;
}

}  // namespace
}  // namespace commlens
