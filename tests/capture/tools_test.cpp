// Other tools that replace MPI functions, in the same job: both see the calls of the program.
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"
#include "second_count.hpp"

namespace commlens::test {
namespace {

class OtherTool : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  std::string program(const std::string& name) const {
    return fmt::format("{}/{}_{}", COMMLENS_CAPTURE_PROGRAMS, name, GetParam());
  }
  /// Preloads pmpi_tool.c for `record` and all that it starts.
  JobOptions with_tool() const {
    return {
        .mpi = GetParam(),
        .ranks = 2,
        .before = fmt::format("LD_PRELOAD={}/libcapture_tool_{}.so ", COMMLENS_CAPTURE_PROGRAMS, GetParam())};
  }
};

/// How often each function was called, on all ranks.
std::map<std::string, int> calls_in(const JobDirectory& directory, const RecordedJob& job) {
  std::map<std::string, int> calls;
  const Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << job.err;
  for (std::size_t rank = 0; trace && rank < trace->streams.size(); ++rank) {
    for (const CommEvent& event : trace->streams[rank].events) {
      ++calls[std::string(trace->names.text(trace->op(event.op).name))];
    }
  }
  return calls;
}
using Calls = std::map<std::string, int>;

// modes.c, after-finalize: ten reductions a rank. The tool's barrier and reduction are its own.
TEST_P(OtherTool, PreloadedByTheUserGetsEveryCallAfterTheRecorder) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(program("modes") + " after-finalize", with_tool());
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.out.find("the tool saw 20 reductions"), std::string::npos) << job.out;
  EXPECT_EQ(calls_in(directory, job), (Calls{{"MPI_Allreduce", 20}}));
}

TEST_P(OtherTool, LinkedWithTheProgramIsBeforeTheRecorder) {
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(program("modes_tool") + " after-finalize", {.mpi = GetParam(), .ranks = 2});
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.out.find("the tool saw 20 reductions"), std::string::npos) << job.out;
  EXPECT_EQ(calls_in(directory, job), (Calls{{"MPI_Allreduce", 20}}));
}

// fortran_calls.f90: one of each a rank. The tool replaces Fortran's mpi_allreduce_ too.
TEST_P(OtherTool, OfFortranFunctionsIsBeforeTheRecorderWithThem) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(program("fortran_mpi"), with_tool());
  if (job.err.find("no such program") != std::string::npos) {
    GTEST_SKIP() << "no Fortran compiler of " << GetParam();
  }
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.out.find("the tool saw 2 reductions"), std::string::npos) << job.out;
  EXPECT_EQ(
      calls_in(directory, job),
      (Calls{{"MPI_Allreduce", 2}, {"MPI_Bcast", 2}, {"MPI_Irecv", 2}, {"MPI_Send", 2}, {"MPI_Barrier", 2}}));
}

// eztrace calls the next library's MPI functions rather than PMPI functions. Launchers crash if it is
// preloaded into them, so it is added when a rank starts.
TEST_P(OtherTool, EztraceAfterTheRecorderWritesTheSameCalls) {
  if (!has_program("eztrace") || !has_program("otf2-print")) {
    GTEST_SKIP() << "eztrace and otf2-print are not installed";
  }
  const JobDirectory directory;
  std::ofstream(directory.path() / "with_eztrace.sh")
      << fmt::format("export EZTRACE_TRACE={0} LD_PRELOAD=$LD_PRELOAD:libeztrace-lib.so:libeztrace-{0}.so\n",
                     GetParam())
      << "exec \"$@\"\n";
  JobOptions options{.mpi = GetParam(), .ranks = 2};
  options.inside = "sh with_eztrace.sh";
  const RecordedJob job = directory.record(program("modes") + " after-finalize", options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  Counts seen = counts_of_eztrace(directory, fmt::format("modes_{}_trace/eztrace_log.otf2", GetParam()));
  EXPECT_EQ(seen["MPI_Allreduce"].calls, 20);
  EXPECT_EQ(calls_in(directory, job), (Calls{{"MPI_Allreduce", 20}}));
}

INSTANTIATE_TEST_SUITE_P(Mpi, OtherTool, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

}  // namespace
}  // namespace commlens::test
