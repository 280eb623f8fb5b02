// The storage of the trace fails while a job is recorded: a full file system, a deleted directory. The job
// continues, and its exit code is unchanged.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

class Storage : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  /// Words that record a program into the directory "trace"; the launcher ends with 7, as each of its ranks
  /// does.
  std::string recorded(const std::string& mode, int ranks) const {
    const JobOptions options{.mpi = GetParam(), .ranks = ranks};
    return fmt::format("{} {} sh -c '{}/modes_{} {}; exit 7'", recording(options), launcher(options),
                       COMMLENS_CAPTURE_PROGRAMS, GetParam(), mode);
  }
};

/// Runs `command` with the directory "small" as a private file system of 1 MiB, and copies its content to
/// "kept" before it is unmounted. The exit code is that of the command; 99 where mounting is not allowed.
RecordedJob run_on_small_disk(const JobDirectory& directory, const std::string& command) {
  const std::string script = fmt::format(
      "mount -t tmpfs -o size=1m none small 2>/dev/null || exit 99; cd small; {}; code=$?; cp -r . ../kept; "
      "exit "
      "$code",
      command);
  std::ofstream(directory.path() / "script") << script;
  return directory.run(
      "mkdir small; if unshare -m true 2>/dev/null; then unshare -m sh script; "
      "elif unshare -rm true 2>/dev/null; then unshare -rm sh script; else exit 99; fi");
}

constexpr int k_not_allowed = 99;

/// Lines written by commlens itself, without its report.
std::size_t messages_in(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find("commlens: "); at != std::string::npos;
       at = text.find("commlens: ", at + 1)) {
    ++count;
  }
  return count;
}

// Each of two ranks makes 2,000,000 calls of 32 bytes each.
TEST_P(Storage, AFullFileSystemStopsTheRecordingAndNotTheJob) {
  const JobDirectory directory;
  const RecordedJob job = run_on_small_disk(directory, recorded("many", 2));
  if (job.exit_code == k_not_allowed) {
    GTEST_SKIP() << "no permission to mount a file system of our own";
  }
  EXPECT_EQ(job.exit_code, 7) << job.err;
  std::string said = job.out;  // launchers may join the lines of two ranks
  said.erase(std::remove(said.begin(), said.end(), '\n'), said.end());
  EXPECT_EQ(said, "made them allmade them all");
  // A line on the calls, and one on a rank that came too late to make its files.
  const bool is_rank_lost = job.err.find("1 rank was not recorded") != std::string::npos;
  EXPECT_EQ(messages_in(job.err), is_rank_lost ? 2U : 1U) << job.err;
  EXPECT_NE(job.err.find("calls were not recorded (commlens summary says why)"), std::string::npos)
      << job.err;
  const Result<Trace> trace = read_trace(directory.path() / "kept/trace");
  ASSERT_TRUE(trace) << trace.error().message;
  std::int64_t kept = 0;
  for (const RankStream& stream : trace->streams) {
    kept += std::ssize(stream.events);
  }
  EXPECT_GT(kept, 10'000);  // of the 32,768 that fit, all but what stands beside them
  const auto& skipped = trace->provenance.skipped;
  ASSERT_TRUE(skipped.contains(std::string(k_skipped_disk_full)));
  std::int64_t all = kept;  // some may be lost because they came faster than the file grew
  for (const auto& [reason, calls] : skipped) {
    all += reason.find("call") == std::string::npos ? 0 : calls;  // a lost rank is counted too
  }
  EXPECT_EQ(all, (is_rank_lost ? 1 : 2) * 2'000'000);
}

TEST_P(Storage, AFullFileSystemRecordsNothingAndReportsWhy) {
  const JobDirectory directory;
  const RecordedJob job = run_on_small_disk(
      directory, "dd if=/dev/zero of=filling bs=1k count=1020 2>/dev/null; " + recorded("after-finalize", 2));
  if (job.exit_code == k_not_allowed) {
    GTEST_SKIP() << "no permission to mount a file system of our own";
  }
  EXPECT_EQ(job.exit_code, 7) << job.err;
  EXPECT_EQ(job.out.rfind("finalized 1\n", 0), 0U)
      << job.out;  // mpirun may end the other rank before it writes its line
  EXPECT_EQ(messages_in(job.err), 1U) << job.err;
  EXPECT_NE(job.err.find("2 ranks were not recorded: cannot write "), std::string::npos) << job.err;
  EXPECT_NE(job.err.find("No space left on device"), std::string::npos) << job.err;
}

/// Records a rank that waits, while `meanwhile` happens to the directory "trace".
RecordedJob run_while(const JobDirectory& directory, const std::string& recorded,
                      const std::string& meanwhile) {
  return directory.run(
      fmt::format("mkfifo ready go; {{ {}; echo \"exit code $?\"; }} & timeout 60 cat ready;  {}; timeout 60 "
                  "sh -c 'echo >go'; wait",
                  recorded, meanwhile));
}

TEST_P(Storage, ADirectoryThatIsDeletedMeanwhileIsReportedAndHarmsNoJob) {
  for (const char* meanwhile : {"rm -rf trace", "rm -rf trace; mkdir trace"}) {
    const JobDirectory directory;
    const RecordedJob job = run_while(directory, recorded("wait ready go", 1), meanwhile);
    EXPECT_EQ(job.out, "exit code 7\n") << meanwhile;
    EXPECT_EQ(messages_in(job.err), 1U) << job.err;
    EXPECT_NE(
        job.err.find("trace was deleted or moved while the command ran, and what was recorded with it\n"),
        std::string::npos)
        << job.err;
  }
}

TEST_P(Storage, ADirectoryThatIsMovedMeanwhileHoldsEveryCall) {
  const JobDirectory directory;
  const RecordedJob job = run_while(directory, recorded("wait ready go", 1), "mv trace moved");
  EXPECT_EQ(job.out, "exit code 7\n");
  EXPECT_NE(job.err.find("was deleted or moved while the command ran"), std::string::npos) << job.err;
  const Result<Trace> trace = read_trace(directory.path() / "moved");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).events.size(), 20U);
}

TEST_P(Storage, AnEarlierTraceComesBackWhenTheDirectoryIsDeletedMeanwhile) {
  const JobDirectory directory;
  directory.run(recorded("after-finalize", 1));
  const RecordedJob job = run_while(directory, recorded("wait ready go", 1), "rm -rf trace");
  EXPECT_EQ(job.out, "exit code 7\n");
  EXPECT_NE(job.err.find("trace holds the earlier trace"), std::string::npos) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).events.size(), 10U);
}

TEST_P(Storage, ACommandThatRecordsNothingIsNotReportedAsADeletedDirectory) {
  const JobDirectory directory;
  const RecordedJob job = directory.run(recording({.mpi = GetParam(), .flags = "--mpi " + GetParam()}) +
                                        " sh -c 'mkdir x; rmdir x'");
  EXPECT_NE(job.err.find("nothing was recorded: no process of the command"), std::string::npos) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, Storage, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
