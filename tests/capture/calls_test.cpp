// Recordings of programs that state their calls, one by one.
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

using Skipped = std::map<std::string, std::int64_t>;

std::string program(const std::string& name, const std::string& mpi) {
  return fmt::format("{}/{}_{}", COMMLENS_CAPTURE_PROGRAMS, name, mpi);
}

/// Runs the program, which gets the directory as its last argument, and compares.
void expect_recorded(const std::string& command, const JobOptions& options, const Skipped& skipped) {
  if (!has_mpi(options.mpi)) {
    GTEST_SKIP() << "no mpirun of " << options.mpi;
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(fmt::format("{} {}", command, directory.path().string()), options);
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace.has_value()) << trace.error().message << job.err;
  const Calls expected = expected_in(directory.path());
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(trace->streams.size(), static_cast<std::size_t>(options.ranks));
  EXPECT_EQ(differences(expected, calls_of(*trace)), "");
  EXPECT_EQ(trace->provenance.skipped, skipped);
}

// calls.c cancels one receive and fails to send once, on each rank.
Skipped of_calls(std::int64_t ranks) { return {{"cancelled call", ranks}, {"failed call", ranks}}; }

TEST(Capture, RecordsTheCallsOfAProgramOnTwoRanksOfOpenMpi) {
  expect_recorded(program("calls", "openmpi"), {.mpi = "openmpi", .ranks = 2}, of_calls(2));
}
TEST(Capture, RecordsTheCallsOfAProgramOnFourRanksOfOpenMpi) {
  expect_recorded(program("calls", "openmpi"), {.mpi = "openmpi", .ranks = 4}, of_calls(4));
}
TEST(Capture, RecordsTheCallsOfAProgramOnTwoRanksOfMpich) {
  expect_recorded(program("calls", "mpich"), {.mpi = "mpich", .ranks = 2}, of_calls(2));
}
TEST(Capture, RecordsTheCallsOfAProgramOnFourRanksOfMpich) {
  expect_recorded(program("calls", "mpich"), {.mpi = "mpich", .ranks = 4}, of_calls(4));
}
TEST(Capture, RecordsRarerCallsOfOpenMpi) {
  expect_recorded(program("more_calls", "openmpi"), {.mpi = "openmpi", .ranks = 3}, {});
}
TEST(Capture, RecordsRarerCallsOfMpich) {
  // Of each rank's MPI_Isendrecv.
  expect_recorded(program("more_calls", "mpich"), {.mpi = "mpich", .ranks = 2},
                  {{"receive whose size the MPI library does not tell", 2}});
}
/// The ops of the program, by the function they were made with.
std::map<std::string, std::vector<CommOp>> ops_of(const std::string& source, const std::string& mpi) {
  const JobDirectory directory;
  directory.record(fmt::format("{} {}", program(source, mpi), directory.path().string()),
                   {.mpi = mpi, .ranks = 2});
  const Result<Trace> trace = read_trace(directory.trace());
  std::map<std::string, std::vector<CommOp>> ops;
  for (const CommOp& op : trace.value().ops()) {
    ops[trace->names.text(op.name)].push_back(op);
  }
  return ops;
}

void expect_reductions_and_blocking(const std::string& mpi) {
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun of " << mpi;
  }
  auto ops = ops_of("calls", mpi);
  const auto expect = [&](const std::string& name, Reduction reduction, bool blocking) {
    EXPECT_TRUE(ops.contains(name)) << name;
    for (const CommOp& op : ops[name]) {
      EXPECT_EQ(op.reduction, reduction) << name;
      EXPECT_EQ(op.blocking, blocking) << name;
    }
  };
  expect("MPI_Bcast", Reduction::unknown, true);
  expect("MPI_Reduce_scatter_block", Reduction::sum, true);
  expect("MPI_Scan", Reduction::product, true);
  expect("MPI_Iallreduce", Reduction::sum, false);
  expect("MPI_Send", Reduction::unknown, true);
  expect("MPI_Recv", Reduction::unknown, true);
  expect("MPI_Isend", Reduction::unknown, false);
  expect("MPI_Irecv", Reduction::unknown, false);
  expect("MPI_Sendrecv", Reduction::unknown, true);
  expect("MPI_Send_init", Reduction::unknown, false);
  expect("MPI_Mrecv", Reduction::unknown, true);
  expect("MPI_Imrecv", Reduction::unknown, false);
  expect("MPI_Put", Reduction::unknown, false);
  expect("MPI_Accumulate", Reduction::sum, false);
  expect("MPI_Win_fence", Reduction::unknown, true);
  std::set<Reduction> of_reduce;
  for (const CommOp& op : ops["MPI_Reduce"]) {
    of_reduce.insert(op.reduction);
  }
  EXPECT_EQ(of_reduce, (std::set{Reduction::max, Reduction::sum}));
}

TEST(Capture, RecordsReductionsAndBlockingOfOpenMpi) { expect_reductions_and_blocking("openmpi"); }
TEST(Capture, RecordsReductionsAndBlockingOfMpich) { expect_reductions_and_blocking("mpich"); }

TEST(Capture, RecordsInsideALauncherOfOpenMpi) {
  expect_recorded(program("calls", "openmpi"), {.mpi = "openmpi", .ranks = 3, .is_inside_launcher = true},
                  of_calls(3));
}
TEST(Capture, RecordsInsideALauncherOfMpich) {
  expect_recorded(program("calls", "mpich"), {.mpi = "mpich", .ranks = 2, .is_inside_launcher = true},
                  of_calls(2));
}

TEST(Capture, RecordsThreadsOfOpenMpi) {
  expect_recorded(program("modes", "openmpi") + " threads", {.mpi = "openmpi", .ranks = 2}, {});
}
TEST(Capture, RecordsThreadsOfMpich) {
  expect_recorded(program("modes", "mpich") + " threads", {.mpi = "mpich", .ranks = 2}, {});
}

// The program asks for no threads at all; Open MPI gives what this variable says.
TEST(Capture, RecordsThreadsThatTheEnvironmentAllows) {
  expect_recorded(program("modes", "openmpi") + " threads-by-environment",
                  {.mpi = "openmpi", .ranks = 2, .before = "OMPI_MPI_THREAD_LEVEL=3 "}, {});
}

void expect_mpi4py_recorded(int ranks) {
  const std::string python = python_with_mpi4py();
  if (python.empty()) {
    GTEST_SKIP() << "python3-mpi4py is not installed";
  }
  expect_recorded(fmt::format("{} {}/mpi4py_calls.py", python, COMMLENS_CAPTURE_SOURCES),
                  {.mpi = "openmpi", .ranks = ranks}, {});
}
TEST(Capture, RecordsWhatAnMpi4pyProgramStatesOnTwoRanks) { expect_mpi4py_recorded(2); }
TEST(Capture, RecordsWhatAnMpi4pyProgramStatesOnFourRanks) { expect_mpi4py_recorded(4); }

/// The calls stated by the program, without those that only one of the libraries has.
Calls common_calls(const std::string& mpi) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(
      fmt::format("{} {}", program("calls", mpi), directory.path().string()), {.mpi = mpi, .ranks = 2});
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << job.err;
  Calls calls = trace ? calls_of(*trace) : Calls{};
  std::erase_if(calls, [](const auto& call) {
    return call.first.find("Allreduce_init") != std::string::npos ||
           call.first.find("Bcast_c") != std::string::npos;
  });
  return calls;
}

TEST(Capture, OneProgramMakesTheSameRecordingOverBothLibraries) {
  if (!has_mpi("openmpi") || !has_mpi("mpich")) {
    GTEST_SKIP() << "only one MPI is installed";
  }
  const Calls openmpi = common_calls("openmpi");
  EXPECT_GT(openmpi.size(), 90U);  // different calls
  EXPECT_EQ(differences(openmpi, common_calls("mpich")), "");
}

/// The calls in fortran_calls.f90.
Calls of_fortran(int rank) {
  Calls calls;
  for (const char* call : {"MPI_Allreduce all_reduce fp64 10 10 0,1 -1", "MPI_Bcast broadcast fp64 9 9 0,1 0",
                           "MPI_Barrier barrier uint8 0 0 0,1 -1"}) {
    calls[fmt::format("{} {}", rank, call)] = 1;
  }
  calls[fmt::format("{0} MPI_Irecv recv fp64 0 7 {0},{0} -1", rank)] = 1;  // 8 would have fitted
  calls[fmt::format("{0} MPI_Send send fp64 7 0 {0},{0} -1", rank)] = 1;
  return calls;
}

class Fortran : public testing::TestWithParam<std::string> {};  // module_MPI

TEST_P(Fortran, ProgramsAreRecorded) {
  const std::string mpi = GetParam().substr(GetParam().find('_') + 1);
  const std::string file = fmt::format("{}/fortran_{}", COMMLENS_CAPTURE_PROGRAMS, GetParam());
  if (!has_mpi(mpi) || !std::filesystem::exists(file)) {
    GTEST_SKIP() << "no Fortran compiler of " << mpi;
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(file, {.mpi = mpi, .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace.has_value()) << job.err;
  Calls expected = of_fortran(0);
  expected.merge(of_fortran(1));
  EXPECT_EQ(differences(expected, calls_of(*trace)), "");
}

INSTANTIATE_TEST_SUITE_P(Module, Fortran,
                         testing::Values("mpi_openmpi", "f08_openmpi", "mpi_mpich", "f08_mpich"),
                         [](const auto& program) { return program.param; });

}  // namespace
}  // namespace commlens::test
