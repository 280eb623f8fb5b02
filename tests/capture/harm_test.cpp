// Programs that fail, or that a recorder must not affect.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

using Skipped = std::map<std::string, std::int64_t>;

class Harm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  JobOptions with_ranks(int ranks) const { return {.mpi = GetParam(), .ranks = ranks}; }
  std::string modes(const std::string& mode) const {
    return fmt::format("{}/modes_{} {}", COMMLENS_CAPTURE_PROGRAMS, GetParam(), mode);
  }
  /// Runs the mode of modes.c that calls MPI after its end, which must succeed on every rank.
  RecordedJob finalized(const JobDirectory& directory, const JobOptions& options) const {
    RecordedJob job = directory.record(modes("after-finalize"), options);
    EXPECT_EQ(job.exit_code, 0) << job.err;
    std::string expected;
    for (int rank = 0; rank < options.ranks; ++rank) {
      expected += "finalized 1\n";
    }
    EXPECT_EQ(job.out, expected);
    return job;
  }
};

/// Finished calls of a kind on all ranks.
std::int64_t finished(const Trace& trace, CommKind kind) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      calls += trace.op(event.op).kind == kind ? 1 : 0;
    }
  }
  return calls;
}

Trace trace_in(const JobDirectory& directory, const RecordedJob& job) {
  Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << trace.error().message << job.err;
  return trace ? std::move(*trace) : Trace{};
}

TEST_P(Harm, AKilledRankLosesNoCompletedCall) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("kill-one"), with_ranks(2));
  EXPECT_NE(job.exit_code, 0);
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 2 * 1000);
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::barrier), 2);
}

TEST_P(Harm, KillingAllRanksLosesNoCompletedCall) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("kill-all"), with_ranks(2));
  EXPECT_NE(job.exit_code, 0);
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 2 * 1000);
}

TEST_P(Harm, AnAbortKeepsItsCodeAndItsCalls) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("abort"), with_ranks(2));
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 2 * 1000);
}

TEST_P(Harm, AForkedChildLeavesNoTrace) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("fork"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 20);
}

// MPICH's own MPI_Finalize aborts in a child of fork (its UCX checks the process id).
TEST_P(Harm, AForkedChildThatFinalizesLeavesTheRecordingAlone) {
  if (GetParam() == "mpich") {
    GTEST_SKIP() << "MPICH does not survive it, recorded or not";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("fork-and-finalize"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 20);
  EXPECT_EQ(trace_in(directory, job).provenance.skipped, Skipped{});
}

// modes.c: one call on a new communicator, 100 reductions, one persistent receive, one send; not the send to
// MPI_PROC_NULL.
TEST_P(Harm, CallsWithoutMemoryAreCountedAndReported) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("no-memory"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  EXPECT_NE(job.err.find("commlens: 103 calls were not recorded"), std::string::npos) << job.err;
  const Trace trace = trace_in(directory, job);
  EXPECT_EQ(finished(trace, CommKind::all_reduce), 10);
  EXPECT_EQ(trace.provenance.skipped, (Skipped{{"call not recorded, memory was out", 103}}));
  EXPECT_EQ(trace.provenance.recorder.value_or(RecorderCost{}).dropped, 103);
}

// Open MPI 4.1 takes the message that is too long for its receive, cut off, for a success of MPI_Waitsome.
TEST_P(Harm, AFailedWaitForSomeRequestsEndsThoseThatItNames) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("waitsome"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  EXPECT_EQ(job.out, "");
  const Trace trace = trace_in(directory, job);
  EXPECT_EQ(finished(trace, CommKind::send), 2);
  const bool is_reported = GetParam() == "mpich";
  EXPECT_EQ(finished(trace, CommKind::recv), is_reported ? 1 : 2);
  EXPECT_EQ(trace.provenance.skipped, is_reported ? (Skipped{{"failed call", 1}}) : Skipped{});
}

// 2^18 are followed; MPICH does not have so many.
TEST_P(Harm, RequestsThatAreTooManyToFollowAreCountedOnce) {
  if (GetParam() == "mpich") {
    GTEST_SKIP() << "MPICH aborts with fewer";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("many-requests"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  const Trace trace = trace_in(directory, job);
  EXPECT_EQ(finished(trace, CommKind::send), 262'154);
  EXPECT_EQ(finished(trace, CommKind::recv), 262'144);
  EXPECT_EQ(trace.provenance.skipped, (Skipped{{"unfinished call", 10}}));
}

// The spawned process, a job of its own, records its two sends as such.
TEST_P(Harm, ProbedMessagesOfAnotherJobAreCounted) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("spawn"), with_ranks(1));
  if (GetParam() == "mpich" && job.exit_code != 0) {
    GTEST_SKIP() << "this MPICH spawns no processes: " << job.err;
  }
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  const Skipped outside{{"call with processes outside of the job", 2}};
  EXPECT_EQ(trace_in(directory, job).provenance.skipped, outside);
  const Result<Trace> spawned = read_trace(directory.trace().string() + "-2");
  ASSERT_TRUE(spawned) << spawned.error().message;
  EXPECT_EQ(spawned->provenance.skipped, outside);
}

// The tool waits for the command with SIGCHLD, which its parent may have ignored.
TEST_P(Harm, AnIgnoredSigchldKeepsTheExitCode) {
  const JobDirectory directory;
  JobOptions options = with_ranks(1);
  options.before = "env --ignore-signal=CHLD ";
  const RecordedJob job = directory.record(modes("never"), options);
  EXPECT_EQ(job.exit_code, 7) << job.err;
}

/// How many ranks and all-reductions a trace has.
std::string extent(const std::filesystem::path& directory) {
  const Result<Trace> trace = read_trace(directory);
  return trace
             ? fmt::format("{} ranks {} calls", trace->streams.size(), finished(*trace, CommKind::all_reduce))
             : trace.error().message;
}

TEST_P(Harm, JobsOfOneCommandAtTheSameTimeHaveADirectoryEach) {
  const JobDirectory directory;
  const std::string program = modes("after-finalize");
  JobOptions options = with_ranks(1);
  options.flags = "--mpi " + GetParam();
  std::ofstream(directory.path() / "jobs.sh") << fmt::format(
      "{0} {2} & {1} {2} & {0} {2} & wait\n", launcher(with_ranks(1)), launcher(with_ranks(2)), program);
  const RecordedJob job = directory.run(recording(options) + " sh jobs.sh");
  EXPECT_EQ(job.exit_code, 0) << job.err;
  std::map<std::string, int> found;
  for (const char* number : {"", "-2", "-3"}) {
    ++found[extent(directory.trace().string() + number)];
  }
  EXPECT_EQ(found, (std::map<std::string, int>{{"1 ranks 10 calls", 2}, {"2 ranks 20 calls", 1}})) << job.err;
}

TEST_P(Harm, ADirectoryThatIsBeingRecordedIsNotReplaced) {
  const JobDirectory directory;
  const std::string record = recording(with_ranks(1)) + " " + launcher(with_ranks(1));
  const RecordedJob job = directory.run(
      fmt::format("mkfifo ready go; {0} {1} ready go 2>/dev/null & read nothing <ready; {0} {2}; echo $?; "
                  "echo >go; wait",
                  record, modes("wait"), modes("after-finalize")));
  EXPECT_EQ(job.out, "2\n");
  EXPECT_NE(job.err.find("another job is being recorded there"), std::string::npos) << job.err;
  EXPECT_EQ(extent(directory.trace()), "1 ranks 20 calls");
}

TEST_P(Harm, AProgramThatNeverCallsMpiIsLeftAsItWas) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(modes("never"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.out, "never called MPI\n");
  EXPECT_NE(job.err.find("nothing was recorded"), std::string::npos) << job.err;
  EXPECT_FALSE(std::filesystem::exists(directory.trace()));
}

TEST_P(Harm, CallsAfterTheEndOfMpiAreLeftAsTheyAre) {
  const JobDirectory directory;
  const RecordedJob job = finalized(directory, with_ranks(1));
  EXPECT_EQ(finished(trace_in(directory, job), CommKind::all_reduce), 10);
}

// 16 MiB hold a header of 64 bytes and 524,286 records of 32; the program makes 2,000,000 calls.
TEST_P(Harm, AFullDiskStopsTheRecordingAndNotTheJob) {
  const JobDirectory directory;
  JobOptions options = with_ranks(1);
  options.before = "prlimit --fsize=16777216 ";
  const RecordedJob job = directory.record(modes("many"), options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "made them all\n");
  EXPECT_NE(job.err.find("1475714 calls were not recorded"), std::string::npos) << job.err;
  const Trace trace = trace_in(directory, job);
  EXPECT_EQ(finished(trace, CommKind::all_reduce), 524'286);
  const std::map<std::string, std::int64_t>& skipped = trace.provenance.skipped;
  ASSERT_TRUE(skipped.contains(std::string(k_skipped_disk_full)));
  std::int64_t dropped = 0;  // some may be lost because they came faster than the file grew
  for (const auto& [reason, calls] : skipped) {
    dropped += calls;
  }
  EXPECT_EQ(dropped, 2'000'000 - 524'286);
}

TEST_P(Harm, AProgramOfAnotherMpiIsUnaffectedAndAWarningIsPrinted) {
  const std::string other = GetParam() == "mpich" ? "openmpi" : "mpich";
  if (!has_mpi(other)) {
    GTEST_SKIP() << "no other MPI";
  }
  const JobDirectory directory;
  JobOptions options = with_ranks(1);
  options.flags = "--mpi " + other;
  const RecordedJob job = finalized(directory, options);
  EXPECT_NE(job.err.find("record it with --mpi " + GetParam()), std::string::npos) << job.err;
  EXPECT_FALSE(std::filesystem::exists(directory.trace()));
}

// /proc takes no directories.
TEST_P(Harm, AJobWhoseDirectoryCannotBeMadeRunsUnrecorded) {
  const JobDirectory directory;
  JobOptions options = with_ranks(2);
  options.inside = "env COMMLENS_TRACE=/proc/none";
  const RecordedJob job = finalized(directory, options);
  EXPECT_NE(job.err.find("2 ranks were not recorded: "), std::string::npos) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, Harm, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
