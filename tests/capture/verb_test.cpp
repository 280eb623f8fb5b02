// The user interface of `record`: earlier traces, names with spaces, messages.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

namespace fs = std::filesystem;

class Verb : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  JobOptions with(const std::string& flags) const { return {.mpi = GetParam(), .ranks = 2, .flags = flags}; }
  std::string program(const std::string& name) const {
    return fmt::format("{}/{}_{}", COMMLENS_CAPTURE_PROGRAMS, name, GetParam());
  }
  /// Records ten reductions of two ranks into the directory's trace.
  void record_ten(const JobDirectory& directory) const {
    ASSERT_EQ(directory.record(program("modes") + " after-finalize", with("")).exit_code, 0);
  }
};

std::size_t records_in(const fs::path& directory) {
  const Result<Trace> trace = read_trace(directory);
  std::size_t records = 0;
  for (std::size_t at = 0; trace && at < trace->streams.size(); ++at) {
    records += trace->streams[at].events.size();
  }
  return records;
}

/// Whatever is beside the trace but what the harness writes.
std::size_t others_beside(const JobDirectory& directory) {
  std::size_t others = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory.path())) {
    const std::string name = entry.path().filename().string();
    const bool is_of_program = name.starts_with("left-the-barrier");
    others += name != "trace" && name != "out" && name != "err" && !is_of_program ? 1 : 0;
  }
  return others;
}

TEST_P(Verb, AnEarlierTraceStaysWhenTheCommandRecordsNothing) {
  const JobDirectory directory;
  record_ten(directory);
  for (const char* command : {"false", "sh -c 'kill -9 $$'"}) {
    const RecordedJob job = directory.run(recording(with("--mpi " + GetParam())) + " " + command);
    EXPECT_NE(job.err.find("trace still holds the earlier trace"), std::string::npos) << job.err;
    EXPECT_EQ(records_in(directory.trace()), 20U) << command;
  }
  EXPECT_EQ(others_beside(directory), 0U);
}

TEST_P(Verb, AnEarlierTraceStaysWhenTheJobAbortsBeforeItsFirstCall) {
  const JobDirectory directory;
  record_ten(directory);
  const RecordedJob job = directory.record(program("modes") + " abort-at-once", with(""));
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_NE(job.err.find("nothing was recorded: the command ended before its first call"), std::string::npos)
      << job.err;
  EXPECT_EQ(records_in(directory.trace()), 20U);
}

TEST_P(Verb, AnEarlierTraceComesBackAfterRecordItselfWasKilled) {
  const JobDirectory directory;
  record_ten(directory);
  const std::string record = recording(with("--mpi " + GetParam()));
  directory.run(fmt::format("( {} sh -c 'kill -9 $PPID' ) 2>/dev/null", record));
  EXPECT_EQ(records_in(directory.trace()), 0U);
  EXPECT_EQ(others_beside(directory), 1U);  // it is put aside
  directory.run(fmt::format("{} false", record));
  EXPECT_EQ(records_in(directory.trace()), 20U);
  EXPECT_EQ(others_beside(directory), 0U);
}

TEST_P(Verb, AJobThatIsKilledReplacesAnEarlierTraceByWhatItRecorded) {
  const JobDirectory directory;
  record_ten(directory);
  directory.record(program("modes") + " kill-all", with(""));
  EXPECT_EQ(records_in(directory.trace()), 2U * 1001U);
  EXPECT_EQ(others_beside(directory), 0U);
}

// Ranks report their cost when they end.
TEST_P(Verb, TheCostOfAKilledOrAbortedJobIsReportedAsUnknown) {
  for (const char* mode : {"kill-all", "abort"}) {
    const JobDirectory directory;
    const RecordedJob job = directory.record(program("modes") + " " + mode, with(""));
    EXPECT_NE(job.err.find("what recording cost is not known"), std::string::npos) << job.err;
    EXPECT_EQ(job.err.find("recording cost at least"), std::string::npos) << job.err;
  }
}

TEST_P(Verb, NoSummaryLeavesTheCountTheIterationsAndTheCost) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(program("heat"), with("--no-summary"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.err.find("per op and group"), std::string::npos) << job.err;
  EXPECT_NE(job.err.find("trace: 62 records of 2 ranks\n"), std::string::npos) << job.err;
  EXPECT_NE(job.err.find("iterations marked by the program\n"), std::string::npos) << job.err;
  EXPECT_NE(job.err.find("recording cost at least"), std::string::npos) << job.err;
}

TEST_P(Verb, ReportsTheScopeOfTheCostAndTheTimeAfterTheCommand) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(program("heat"), with(""));
  EXPECT_NE(job.err.find("what it does within MPI_Init and MPI_Finalize is not counted"), std::string::npos)
      << job.err;
  const std::size_t after = job.err.find("after the command: ");
  ASSERT_NE(after, std::string::npos) << job.err;
  EXPECT_NE(job.err.find(" for iterations and totals, ", after), std::string::npos) << job.err;
  EXPECT_NE(job.err.find(" for this summary (--no-summary)", after), std::string::npos) << job.err;
}

TEST_P(Verb, AProgramATraceAndCommlensMayHaveSpacesInTheirPaths) {
  const JobDirectory directory;
  const std::string mpirun = launcher(with(""));
  directory.run(
      fmt::format("mkdir 'my tools' && cp {} 'my tools/my heat' && ln -s $COMMLENS_BINARY "
                  "$(dirname $COMMLENS_BINARY)/libcommlens-capture-mpi-*.so 'my tools'",
                  program("heat")));
  const std::string record = "COMMLENS_MODULE_PATH=\"$PWD/my tools\" 'my tools/commlens' record";
  for (const std::string& command :
       {fmt::format("{} -o 'a trace' -- {} './my tools/my heat'", record, mpirun),
        fmt::format("export COMMLENS_MODULE_PATH=\"$PWD/my tools\"; {} 'my tools/commlens' record "
                    "-o 'a trace' -- './my tools/my heat'",
                    mpirun)}) {
    const RecordedJob job = directory.run(command);
    EXPECT_EQ(job.exit_code, 0) << job.err;
    EXPECT_EQ(records_in(directory.path() / "a trace"), 62U) << command << job.err;
  }
  const Result<Trace> trace = read_trace(directory.path() / "a trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.description.substr(0, 20), "'./my tools/my heat'");
}

TEST_P(Verb, ALibraryWhosePathTheLoaderCannotTakeIsRefused) {
  const JobDirectory directory;
  const RecordedJob job = directory.run(
      fmt::format("mkdir a:b && cp $COMMLENS_BINARY $(dirname $COMMLENS_BINARY)/libcommlens-capture-mpi-*.so "
                  "a:b && a:b/commlens record --mpi {} -- true",
                  GetParam()));
  EXPECT_EQ(job.exit_code, 2);
  EXPECT_NE(job.err.find("the loader takes no library whose path has a colon"), std::string::npos) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, Verb, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
