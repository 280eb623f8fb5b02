// Programs that end badly, or that a recorder must leave alone.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

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

Trace trace_in(const JobFolder& folder, const RecordedJob& job) {
  Result<Trace> trace = read_trace(folder.trace());
  EXPECT_TRUE(trace.has_value()) << trace.error().message << job.err;
  return trace ? std::move(*trace) : Trace{};
}

TEST_P(Harm, AKilledRankLosesNoCompletedCall) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("kill-one"), with_ranks(2));
  EXPECT_NE(job.exit_code, 0);
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::all_reduce), 2 * 1000);
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::barrier), 2);
}

TEST_P(Harm, KillingAllRanksLosesNoCompletedCall) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("kill-all"), with_ranks(2));
  EXPECT_NE(job.exit_code, 0);
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::all_reduce), 2 * 1000);
}

TEST_P(Harm, AnAbortKeepsItsCodeAndItsCalls) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("abort"), with_ranks(2));
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::all_reduce), 2 * 1000);
}

TEST_P(Harm, AForkedChildLeavesNoTrace) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("fork"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::all_reduce), 20);
}

TEST_P(Harm, AProgramThatNeverCallsMpiIsLeftAsItWas) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("never"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.out, "never called MPI\n");
  EXPECT_NE(job.err.find("nothing was recorded"), std::string::npos) << job.err;
  EXPECT_FALSE(std::filesystem::exists(folder.trace()));
}

TEST_P(Harm, CallsAfterTheEndOfMpiAreLeftAsTheyAre) {
  const JobFolder folder;
  const RecordedJob job = folder.record(modes("after-finalize"), with_ranks(1));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "finalized 1\n");
  EXPECT_EQ(finished(trace_in(folder, job), CommKind::all_reduce), 10);
}

// 16 MiB hold a header of 64 bytes and 524,286 records of 32; the program makes 2,000,000 calls.
TEST_P(Harm, AFullDiskStopsTheRecordingAndNotTheJob) {
  const JobFolder folder;
  JobOptions options = with_ranks(1);
  options.before = "prlimit --fsize=16777216 ";
  const RecordedJob job = folder.record(modes("many"), options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "made them all\n");
  EXPECT_NE(job.err.find("1475714 calls were not recorded"), std::string::npos) << job.err;
  const Trace trace = trace_in(folder, job);
  EXPECT_EQ(finished(trace, CommKind::all_reduce), 524'286);
  const std::map<std::string, std::int64_t>& skipped = trace.provenance.skipped;
  ASSERT_TRUE(skipped.contains(std::string(k_skipped_disk_full)));
  std::int64_t dropped = 0;  // some may be lost because they came faster than the file grew
  for (const auto& [reason, calls] : skipped) {
    dropped += calls;
  }
  EXPECT_EQ(dropped, 2'000'000 - 524'286);
}

TEST_P(Harm, AProgramOfAnotherMpiIsLeftAsItWasAndTold) {
  const std::string other = GetParam() == "mpich" ? "openmpi" : "mpich";
  if (!has_mpi(other)) {
    GTEST_SKIP() << "no other MPI";
  }
  const JobFolder folder;
  JobOptions options = with_ranks(1);
  options.flags = "--mpi " + other;
  const RecordedJob job = folder.record(modes("after-finalize"), options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "finalized 1\n");
  EXPECT_NE(job.err.find("record it with --mpi " + GetParam()), std::string::npos) << job.err;
  EXPECT_FALSE(std::filesystem::exists(folder.trace()));
}

// /proc takes no folders.
TEST_P(Harm, AJobWhoseFolderCannotBeMadeRunsUnrecorded) {
  const JobFolder folder;
  JobOptions options = with_ranks(2);
  options.inside = "env COMMLENS_TRACE=/proc/none";
  const RecordedJob job = folder.record(modes("after-finalize"), options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "finalized 1\nfinalized 1\n");
  EXPECT_NE(job.err.find("2 ranks were not recorded: "), std::string::npos) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, Harm, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
