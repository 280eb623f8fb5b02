// Programs that start MPI with MPI_Session_init (MPI 4).
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

class Sessions : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam()) || JobDirectory().run(program("alone")).exit_code == 77) {
      GTEST_SKIP() << "no " << GetParam() << ", or one without sessions";
    }
  }
  std::string program(const std::string& mode) const {
    return fmt::format("{}/sessions_{} {}", COMMLENS_CAPTURE_PROGRAMS, GetParam(), mode);
  }
  RecordedJob record(const JobDirectory& directory, const std::string& mode) const {
    return directory.record(program(mode), {.mpi = GetParam(), .ranks = 3});
  }
};

/// The calls of work() in sessions.c and of the single session of rank 0, in the lines of expected.h.
Calls calls_of_all() {
  Calls calls = {{"0 MPI_Allreduce all_reduce fp64 3 3 0 -1", 1}};
  for (int rank = 0; rank < 3; ++rank) {
    calls[fmt::format("{} MPI_Allreduce all_reduce fp64 8 8 0,1,2 -1", rank)] = 10;
    calls[fmt::format("{0} MPI_Sendrecv send fp64 1 0 {0},{1} -1", rank, (rank + 1) % 3)] = 1;
    calls[fmt::format("{0} MPI_Sendrecv recv fp64 0 1 {1},{0} -1", rank, (rank + 2) % 3)] = 1;
    calls[fmt::format("{} MPI_Bcast broadcast fp64 1 1 2,1,0 0", rank)] = 1;
  }
  return calls;
}

TEST_P(Sessions, AreRecordedFromTheFirstCommunicatorOfAllProcesses) {
  const JobDirectory directory;
  const RecordedJob job = record(directory, "all");
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace) << job.err;
  EXPECT_EQ(differences(calls_of_all(), calls_of(*trace)), "");
  EXPECT_TRUE(trace->provenance.skipped.empty());
  EXPECT_NE(job.err.find("recording cost at least"), std::string::npos) << job.err;  // it came to its end
}

TEST_P(Sessions, BesideMpiInitBelongToItsRecording) {
  const JobDirectory directory;
  const RecordedJob job = record(directory, "and-init");
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace) << job.err;
  Calls expected = calls_of_all();
  for (int rank = 0; rank < 3; ++rank) {
    expected[fmt::format("{} MPI_Allreduce all_reduce fp64 5 5 0,1,2 -1", rank)] = 1;
  }
  EXPECT_EQ(differences(expected, calls_of(*trace)), "");
}

TEST_P(Sessions, WithoutACommunicatorOfAllProcessesAreNamedOnce) {
  const JobDirectory directory;
  const RecordedJob job = record(directory, "alone");
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const std::string text = "commlens: nothing was recorded: the program uses MPI sessions";
  const std::size_t first = job.err.find(text);
  ASSERT_NE(first, std::string::npos) << job.err;
  EXPECT_EQ(job.err.find(text, first + 1), std::string::npos) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, Sessions, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
