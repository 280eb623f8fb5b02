// Recordings of programs with several communicators of the same ranks: in communicators.c the size of a call
// identifies its communicator.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

Trace recorded_mode(const std::string& mode, const JobOptions& options) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(
      fmt::format("{}/communicators_{} {}", COMMLENS_CAPTURE_PROGRAMS, options.mpi, mode), options);
  EXPECT_EQ(job.exit_code, 0) << job.out << job.err;
  Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return trace ? std::move(*trace) : Trace{};
}

/// Elements of the calls of a kind, by group of the trace and rank, in issue order.
using Sizes = std::map<GroupId, std::map<Rank, std::vector<std::int64_t>>>;
Sizes sizes_of(const Trace& trace, CommKind kind) {
  Sizes sizes;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      if (op.kind == kind) {
        sizes[op.group][stream.ranks.first].push_back(std::max(op.input.value, op.output.value));
      }
    }
  }
  return sizes;
}

void expect_threads_apart(const std::string& mpi) {
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun of " << mpi;
  }
  const Trace trace = recorded_mode("threads", {.mpi = mpi, .ranks = 2});
  std::set<std::int64_t> first_sizes;
  std::size_t reductions = 0;
  for (const auto& [group, ranks] : sizes_of(trace, CommKind::all_reduce)) {
    EXPECT_NE(trace.groups.communicator(group), k_no_communicator);
    ASSERT_EQ(ranks.size(), 2U);
    const std::vector<std::int64_t>& of_first = ranks.at(Rank{0});
    EXPECT_EQ(of_first, ranks.at(Rank{1}));  // the k-th calls belong together
    first_sizes.insert(of_first.front());
    reductions += of_first.size();
  }
  EXPECT_EQ(first_sizes, (std::set<std::int64_t>{1, 1000}));
  EXPECT_EQ(reductions, 800U);
  for (const auto& [group, ranks] : sizes_of(trace, CommKind::send)) {
    EXPECT_NE(trace.groups.communicator(group), k_no_communicator);
  }
}

TEST(Communicators, OfTwoThreadsAreDistinctOverOpenMpi) { expect_threads_apart("openmpi"); }
TEST(Communicators, OfTwoThreadsAreDistinctOverMpich) { expect_threads_apart("mpich"); }

/// Each number of elements is of one communicator: the same number on all ranks, another one than for other
/// elements.
void expect_kinds_apart(const std::string& mpi, int ranks) {
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun of " << mpi;
  }
  const Trace trace = recorded_mode("kinds", {.mpi = mpi, .ranks = ranks});
  std::map<std::int64_t, std::set<CommunicatorId>> by_size;
  std::map<std::int64_t, std::set<Rank>> callers;
  std::map<std::int64_t, std::int64_t> members;
  std::map<CommunicatorId, std::set<std::int64_t>> by_communicator;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      const std::int64_t size = op.input.value;
      if (trace.names.text(op.name) == "MPI_Allreduce" && trace.groups.size(op.group) > 1) {
        by_size[size].insert(trace.groups.communicator(op.group));
        by_communicator[trace.groups.communicator(op.group)].insert(size);
        callers[size].insert(stream.ranks.first);
        members[size] = trace.groups.size(op.group);
      }
    }
  }
  EXPECT_GE(by_size.size(), 24U);
  for (const auto& [size, communicators] : by_size) {
    EXPECT_EQ(communicators.size(), 1U) << size << " elements";
    EXPECT_NE(*communicators.begin(), k_no_communicator) << size << " elements";
    EXPECT_EQ(static_cast<std::int64_t>(callers[size].size()), members[size]) << size << " elements";
  }
  for (const auto& [communicator, sizes] : by_communicator) {
    EXPECT_EQ(sizes.size(), 1U) << text_of(communicator) << ": " << *sizes.begin() << " and "
                                << *sizes.rbegin();
  }
  EXPECT_EQ(*by_size.at(1).begin(), world_communicator());
}

TEST(Communicators, OfEveryMakingHaveOneNumberOnTwoRanksOfOpenMpi) { expect_kinds_apart("openmpi", 2); }
TEST(Communicators, OfEveryMakingHaveOneNumberOnFourRanksOfOpenMpi) { expect_kinds_apart("openmpi", 4); }
TEST(Communicators, OfEveryMakingHaveOneNumberOnTwoRanksOfMpich) { expect_kinds_apart("mpich", 2); }
TEST(Communicators, OfEveryMakingHaveOneNumberOnFourRanksOfMpich) { expect_kinds_apart("mpich", 4); }

// A window is its communicator's: no second group of the same ranks.
TEST(Communicators, GiveTheirWindowsTheirNumber) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun";
  }
  const Trace trace = recorded_mode("kinds", {.mpi = mpi, .ranks = 2});
  const RankStream& stream = trace.streams.at(0);
  GroupId last_reduction{};
  std::int64_t fences = 0;
  for (const CommEvent& event : stream.events) {
    const CommOp& op = trace.op(event.op);
    if (trace.names.text(op.name) == "MPI_Win_fence") {
      ++fences;
      EXPECT_EQ(op.group, last_reduction);
    }
    last_reduction = trace.names.text(op.name) == "MPI_Allreduce" ? op.group : last_reduction;
  }
  EXPECT_EQ(fences, 2);
}

}  // namespace
}  // namespace commlens::test
