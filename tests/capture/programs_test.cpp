// Third-party programs, recorded to their end and counted by a second tool: hpcc over Open MPI, NetPIPE over
// MPICH.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"
#include "second_count.hpp"

namespace commlens::test {
namespace {

constexpr const char* k_netpipe =
    "NPmpich2 -u 4096 -n 10";  // a fixed number of repeats: each run makes the same calls

Trace trace_of(const JobDirectory& directory, const RecordedJob& job) {
  Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << trace.error().message << job.err;
  return trace ? std::move(*trace) : Trace{};
}

/// A directory in which hpcc finds a job of some seconds.
JobDirectory& with_hpcc_input(JobDirectory& directory) {
  std::filesystem::copy_file(std::filesystem::path(COMMLENS_CAPTURE_SOURCES) / "hpccinf.txt",
                             directory.path() / "hpccinf.txt");
  return directory;
}

Counts total(const Trace& trace) {
  Counts all;
  for (const RankStream& stream : trace.streams) {
    for (const auto& [name, count] : counts_of_recording(trace, stream.ranks.first)) {
      all[name].calls += count.calls;
      all[name].bytes += count.bytes;
    }
  }
  return all;
}

std::int64_t skipped(const Trace& trace, const std::string& reason) {
  const auto found = trace.provenance.skipped.find(reason);
  return found == trace.provenance.skipped.end() ? 0 : found->second;
}

TEST(Programs, HpccRunsToItsEndAndReceivesWhatItSends) {
  if (!has_mpi("openmpi") || !has_program("hpcc")) {
    GTEST_SKIP() << "hpcc is not installed";
  }
  JobDirectory directory;
  const RecordedJob job = with_hpcc_input(directory).record("hpcc", {.mpi = "openmpi", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const std::string end = directory.run("tail -5 hpccoutf.txt").out;
  EXPECT_NE(end.find("End of HPC Challenge tests."), std::string::npos) << end;
  const Trace trace = trace_of(directory, job);
  const std::map<std::string, std::int64_t> only_cancelled = {
      {"cancelled call", skipped(trace, "cancelled call")}};
  EXPECT_EQ(trace.provenance.skipped, only_cancelled);
  Counts all = total(trace);
  EXPECT_GT(all["MPI_Send"].calls, 0);
  EXPECT_EQ(all["MPI_Recv"].calls, all["MPI_Send"].calls);
  EXPECT_EQ(all["MPI_Recv"].bytes, all["MPI_Send"].bytes);
  EXPECT_EQ(all["MPI_Irecv"].calls, all["MPI_Isend"].calls);
  EXPECT_EQ(all["MPI_Irecv"].bytes, all["MPI_Isend"].bytes);
}

// ltrace counts how often the program jumps into the MPI library, by ptrace, in the run that is recorded:
// hpcc repeats some calls for a time rather than a number of times.
TEST(Programs, CallsOfHpccOnEachRankAreThoseThatLtraceCounts) {
  if (!has_mpi("openmpi") || !has_program("hpcc")) {
    GTEST_SKIP() << "hpcc is not installed";
  }
  if (JobDirectory().run("ltrace -o calls true").exit_code != 0) {
    GTEST_SKIP() << "ltrace is not installed, or may not trace here";
  }
  JobDirectory directory;
  const RecordedJob job = with_hpcc_input(directory).record(
      "sh -c 'exec ltrace -c -o counts.$OMPI_COMM_WORLD_RANK -e \"MPI_*\" hpcc'",
      {.mpi = "openmpi", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = trace_of(directory, job);
  std::int64_t cancelled = 0;
  for (const std::int64_t rank : {0, 1}) {
    Counts counted = counts_of_ltrace(directory.path() / fmt::format("counts.{}", rank));
    Counts recorded = counts_of_recording(trace, Rank{rank});
    EXPECT_GE(recorded.size(), 10U);  // different calls
    cancelled += counted["MPI_Irecv"].calls - recorded["MPI_Irecv"].calls;
    for (const auto& [name, count] : recorded) {
      if (name != "MPI_Irecv") {
        EXPECT_EQ(count.calls, counted[name].calls) << name << " of rank " << rank;
      }
    }
    for (const char* name : {"MPI_Allreduce", "MPI_Alltoall", "MPI_Barrier", "MPI_Bcast", "MPI_Gather",
                             "MPI_Isend", "MPI_Recv", "MPI_Reduce", "MPI_Send", "MPI_Sendrecv"}) {
      EXPECT_EQ(recorded[name].calls, counted[name].calls) << name << " of rank " << rank;
    }
  }
  EXPECT_EQ(skipped(trace, "cancelled call"), cancelled);  // receives that hpcc takes back
}

// eztrace is loaded before the recorder in the same run. It sends messages of its own (barriers, broadcasts,
// reductions, blocking messages), which the recorder sees too; the other calls must be the same.
TEST(Programs, CallsOfHpccAreThoseThatEztraceSees) {
  if (!has_mpi("openmpi") || !has_program("hpcc") || !has_program("eztrace") || !has_program("otf2-print")) {
    GTEST_SKIP() << "hpcc, eztrace and otf2-print are not installed";
  }
  JobDirectory directory;
  const RecordedJob job =
      with_hpcc_input(directory).record("eztrace -t openmpi hpcc", {.mpi = "openmpi", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = trace_of(directory, job);
  Counts recorded = total(trace);
  Counts seen = counts_of_eztrace(directory, "hpcc_trace/eztrace_log.otf2");
  EXPECT_GT(seen["MPI_Isend"].calls, 0);
  for (const char* name : {"MPI_Allreduce", "MPI_Alltoall", "MPI_Gather", "MPI_Isend", "MPI_Sendrecv"}) {
    EXPECT_EQ(recorded[name].calls, seen[name].calls) << name;
  }
  EXPECT_EQ(recorded["MPI_Irecv"].calls + skipped(trace, "cancelled call"), seen["MPI_Irecv"].calls);
  EXPECT_EQ(recorded["MPI_Isend"].bytes, seen["MPI_Isend"].bytes);
}

TEST(Programs, NetpipeSendsTheSizesThatItPrints) {
  if (!has_mpi("mpich") || !has_program("NPmpich2")) {
    GTEST_SKIP() << "netpipe-mpich2 is not installed";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(k_netpipe, {.mpi = "mpich", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = trace_of(directory, job);
  EXPECT_TRUE(trace.provenance.skipped.empty());
  std::map<std::int64_t, std::int64_t> messages;  // of rank 0, by size
  for (const CommEvent& event : trace.streams.at(0).events) {
    const CommOp& op = trace.op(event.op);
    messages[(op.input * op.dtype).value] += op.kind == CommKind::send ? 1 : 0;
  }
  std::istringstream lines(
      job.err);  // " 12:      16 bytes     10 times -->    310.30 Mbps in       0.39 usec"
  int sizes = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t size = 0;
    std::int64_t times = 0;
    if (words >> word >> size >> word >> times && word == "bytes" &&
        size >= 16) {  // smaller ones steer it as well
      ++sizes;
      EXPECT_EQ(messages[size], 3 * times) << size << " bytes";  // TRIALS of NetPIPE.h
    }
  }
  EXPECT_EQ(sizes, 50);
}

TEST(Programs, CallsOfNetpipeAreThoseThatEztraceSees) {
  if (!has_mpi("mpich") || !has_program("NPmpich2") || !has_program("eztrace") ||
      !has_program("otf2-print")) {
    GTEST_SKIP() << "netpipe-mpich2, eztrace and otf2-print are not installed";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(k_netpipe, {.mpi = "mpich", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const RecordedJob second =
      directory.run(fmt::format("{} -n 2 eztrace -t mpich {}", COMMLENS_MPIRUN_MPICH, k_netpipe));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  Counts recorded = total(trace_of(directory, job));
  Counts seen = counts_of_eztrace(directory, "NPmpich2_trace/eztrace_log.otf2");
  EXPECT_GT(seen["MPI_Send"].calls, 0);
  for (const char* name : {"MPI_Barrier", "MPI_Recv", "MPI_Send"}) {
    EXPECT_EQ(recorded[name].calls, seen[name].calls) << name;
    EXPECT_EQ(recorded[name].bytes, seen[name].bytes) << name;
  }
}

}  // namespace
}  // namespace commlens::test
