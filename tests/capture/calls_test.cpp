// Recordings of programs that state what they do, call by call.
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

using Skipped = std::map<std::string, std::int64_t>;

std::string program(const std::string& name, const std::string& mpi) {
  return fmt::format("{}/{}_{}", COMMLENS_CAPTURE_PROGRAMS, name, mpi);
}

/// Runs the program, which gets the folder as its last argument, and compares.
void expect_recorded(const std::string& command, const JobOptions& options, const Skipped& skipped) {
  if (!has_mpi(options.mpi)) {
    GTEST_SKIP() << "no mpirun of " << options.mpi;
  }
  const JobFolder folder;
  const RecordedJob job = folder.record(fmt::format("{} {}", command, folder.path().string()), options);
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(folder.trace());
  ASSERT_TRUE(trace.has_value()) << trace.error().message << job.err;
  const Calls expected = expected_in(folder.path());
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

/// A Python that has mpi4py; the first one in PATH may be none of the system's.
std::string python_with_mpi4py() {
  const JobFolder folder;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (folder.run(fmt::format("{} -c 'import mpi4py'", python)).exit_code == 0) {
      return python;
    }
  }
  return {};
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

}  // namespace
}  // namespace commlens::test
