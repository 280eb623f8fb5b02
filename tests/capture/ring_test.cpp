// Recordings of MPI programs that keep the last calls of each rank.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

constexpr std::uint64_t k_before = 274'560;  // bytes of a ring's headers

class RecordedRing : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  static std::string program(const std::string& name, const std::string& mode) {
    return fmt::format("{}/{}_{} {}", COMMLENS_CAPTURE_PROGRAMS, name, GetParam(), mode);
  }
};

// Each of the two ranks makes 1001 calls and kills itself.
TEST_P(RecordedRing, OfAKilledJobHasItsLastCalls) {
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(program("modes", "kill-all"), {.mpi = GetParam(), .ranks = 2, .flags = "--ring 100"});
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace) << trace.error().message << job.err;
  ASSERT_EQ(trace->streams.size(), 2U);
  for (const RankStream& stream : trace->streams) {
    EXPECT_EQ(stream.events.size(), 100U);
    const std::string file = fmt::format("rank-{}.bin", stream.ranks.first.value);
    EXPECT_EQ(std::filesystem::file_size(directory.trace() / file), k_before + 100 * 32);
  }
  EXPECT_EQ(trace->provenance.skipped.at("call overwritten, ring full"), 2 * 901);
  const RecordedJob summary = directory.run("\"$COMMLENS_BINARY\" summary trace");
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_NE(summary.out.find("covered: all but 1,802 calls overwritten, ring full"), std::string::npos)
      << summary.out;
}

// Of the 31 calls of each rank the last 16 are there; those of the first of these iterations have lost their
// number.
TEST_P(RecordedRing, KeepsTheMarksOfTheProgram) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(
      program("heat", ""), {.mpi = GetParam(), .ranks = 2, .flags = "--ring 16 --no-summary"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.err.find("trace: 62 records of 2 ranks, of each the last 16 are there\n"), std::string::npos)
      << job.err;
  EXPECT_NE(job.err.find("iterations marked by the program\n"), std::string::npos) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).events.size(), 16U);
  EXPECT_EQ(trace->provenance.skipped.at("call overwritten, ring full"), 2 * 15);
}

TEST_P(RecordedRing, IsOfTheUsualSizeWithoutANumber) {
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(program("heat", ""), {.mpi = GetParam(), .ranks = 2, .flags = "--no-summary --ring"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const Result<Manifest> manifest = read_manifest(directory.trace() / "manifest.json");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->streams.at(0).ring, 262'144);
  EXPECT_EQ(std::filesystem::file_size(directory.trace() / "rank-0.bin"), k_before + 31 * 32);
}

TEST_P(RecordedRing, RefusesNumbersThatAreNone) {
  const JobDirectory directory;
  for (const char* const flags :
       {"--ring 0", "--ring -5", "--ring many", "--ring 1073741825", "--ring 1.5"}) {
    const RecordedJob job = directory.record("true", {.mpi = GetParam(), .ranks = 2, .flags = flags});
    EXPECT_EQ(job.exit_code, 2) << flags;
    EXPECT_NE(job.err.find("--ring"), std::string::npos) << job.err;
    EXPECT_FALSE(std::filesystem::exists(directory.trace())) << flags;
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, RecordedRing, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
