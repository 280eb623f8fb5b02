// Two communicators of the same two ranks, on which the ranks call in opposite orders, as two threads each
// may do: 4 bytes on the first and 400 on the second. All files are synthetic, written by the formats'
// documents.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/import_any.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/merge_traces.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;

struct File {
  std::string name;
  std::string text;
};

struct Case {
  std::string format;
  std::vector<File> files;
  std::int64_t waited_ns = 0;  // by both ranks, in the two calls
};

/// The calls of rank `rank`, in order: 0 the communicator, 1 the bytes.
std::vector<std::pair<int, int>> calls_of(int rank) {
  using Calls = std::vector<std::pair<int, int>>;
  return rank == 0 ? Calls{{0, 4}, {1, 400}} : Calls{{1, 400}, {0, 4}};
}

std::string nccl_lines(int rank) {
  const std::string who = fmt::format("node{}:{}:9 [0] NCCL INFO ", rank, 100 + rank);
  std::string text;
  for (int communicator = 0; communicator < 2; ++communicator) {
    text += fmt::format(
        "{}ncclCommInitRank comm 0xa{} rank {} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1{} - Init "
        "COMPLETE\n",
        who, communicator, rank, communicator);
  }
  for (const auto& [communicator, bytes] : calls_of(rank)) {
    text += fmt::format(
        "{}AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count {} datatype 7 op 0 root 0 comm 0xa{} "
        "[nranks=2] "
        "stream 0x5\n",
        who, bytes / 4, communicator);
  }
  return text;
}

std::string inspector_lines(int rank) {
  std::string text;
  int at_us = 1000;
  for (const auto& [communicator, bytes] : calls_of(rank)) {
    text += fmt::format(
        R"({{"header":{{"id":"0x1{}","rank":{},"n_ranks":2,"nnodes":1}},"metadata":{{)"
        R"("inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface",)"
        R"("dump_timestamp_us":{},"hostname":"h","pid":{}}},"coll_perf":{{"coll":"AllReduce","coll_sn":1,)"
        R"("coll_msg_size_bytes":{},"coll_exec_time_us":10,"coll_timing_source":"kernel_gpu",)"
        R"("coll_algobw_gbs":1,"coll_busbw_gbs":1}}}})"
        "\n",
        communicator, rank, at_us += 100, 7 + rank, bytes);
  }
  return text;
}

std::string kineto_text(int rank) {
  std::string events;
  int at_us = 1000;
  for (const auto& [communicator, bytes] : calls_of(rank)) {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7, "ts": {}, )"
        R"("dur": 10, "args": {{"correlation": {}, "Collective name": "allreduce", "In msg nelems": {}, )"
        R"("Out msg nelems": {}, "Group size": 2, "dtype": "Float", "Process Group Name": "{}", )"
        R"("Process Group Ranks": "[0, 1]"}}}})",
        events.empty() ? "" : ", ", at_us, at_us, bytes / 4, bytes / 4, communicator);
    at_us += 100;
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": 2}}, )"
      R"("traceEvents": [{}]}})",
      rank, events);
}

std::string flight_text(int rank) {
  std::string entries;
  int at_ns = 1000;
  for (const auto& [communicator, bytes] : calls_of(rank)) {
    entries += fmt::format(
        R"({}{{"profiling_name": "nccl:all_reduce", "process_group": ["{}", "d"], "input_sizes": [[{}]], )"
        R"("output_sizes": [[{}]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "duration_ms": 0.01, )"
        R"("time_created_ns": {}, "time_discovered_completed_ns": {}, "state": "completed"}})",
        entries.empty() ? "" : ", ", communicator, bytes / 4, bytes / 4, at_ns, at_ns + 900);
    at_ns += 1000;
  }
  return fmt::format(
      R"({{"version": "2.4", "pg_config": {{"0": {{"ranks": "[0, 1]"}}, "1": {{"ranks": "[0, 1]"}}}}, )"
      R"("entries": [{}]}})",
      entries);
}

std::vector<Case> cases() {
  return {
      {"NCCL log of all ranks", {{"job.log", nccl_lines(0) + nccl_lines(1)}}},
      {"NCCL logs of one rank each", {{"0.log", nccl_lines(0)}, {"1.log", nccl_lines(1)}}},
      {"NCCL Inspector, one file", {{"inspector.log", inspector_lines(0) + inspector_lines(1)}}, 2 * 10'000},
      {"Kineto",
       {{"rank0.pt.trace.json", kineto_text(0)}, {"rank1.pt.trace.json", kineto_text(1)}},
       2 * 10'000},
      {"flight recorder",
       {{"nccl_trace_rank_0", flight_text(0)}, {"nccl_trace_rank_1", flight_text(1)}},
       2 * 1000}};
}

Result<Trace> imported(const Case& tested) {
  const ScratchDirectory directory;
  std::vector<Trace> traces;
  std::vector<std::string> names;
  for (const File& file : tested.files) {
    Result<Trace> trace = formats::import_any(directory.write(file.name, file.text));
    if (!trace) {
      return trace;
    }
    traces.push_back(std::move(*trace));
    names.push_back(file.name);
  }
  return merged(std::move(traces), names);
}

std::int64_t bytes_of(const Trace& trace, const RankStream& stream, std::size_t row) {
  const CommOp& op = trace.op(stream.events.at(row).op);
  return (op.input * op.dtype).value;
}

/// Bytes of the calls of each rank on each group, in order.
std::map<GroupId, std::map<Rank, std::vector<std::int64_t>>> calls_by_group(const Trace& trace) {
  std::map<GroupId, std::map<Rank, std::vector<std::int64_t>>> calls;
  for (const RankStream& stream : trace.streams) {
    for (std::size_t row = 0; row < stream.events.size(); ++row) {
      calls[trace.op(stream.events[row].op).group][stream.ranks.first].push_back(
          bytes_of(trace, stream, row));
    }
  }
  return calls;
}

TEST(Communicators, OfTheSameRanksAreTwoGroupsInEveryFormatThatDistinguishesThem) {
  for (const Case& tested : cases()) {
    SCOPED_TRACE(tested.format);
    const Result<Trace> trace = imported(tested);
    ASSERT_TRUE(trace) << trace.error().message;
    const auto groups = calls_by_group(*trace);
    ASSERT_EQ(groups.size(), 2U);
    std::vector<std::int64_t> ordinals;
    std::vector<std::vector<std::int64_t>> sizes;
    for (const auto& [group, ranks] : groups) {
      EXPECT_EQ(trace->groups.members(group, Rank{0}), (std::vector<Rank>{Rank{0}, Rank{1}}));
      EXPECT_NE(trace->groups.communicator(group), k_no_communicator);
      EXPECT_EQ(ranks.at(Rank{0}), ranks.at(Rank{1}));
      ordinals.push_back(trace->groups.ordinal(group));
      sizes.push_back(ranks.at(Rank{0}));
    }
    std::sort(ordinals.begin(), ordinals.end());
    std::sort(sizes.begin(), sizes.end());
    EXPECT_EQ(ordinals, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(sizes, (std::vector<std::vector<std::int64_t>>{{4}, {400}}));
  }
}

// In each communicator one rank is later by the distance of a rank's calls, or later than the other's call
// ends. Matched by members only, both calls would be at the same time, without a wait.
TEST(Communicators, OfTheSameRanksHaveTheirCallsMatchedApart) {
  for (const Case& tested : cases()) {
    if (tested.waited_ns == 0) {
      continue;  // calls without times are not matched
    }
    SCOPED_TRACE(tested.format);
    const Result<Trace> trace = imported(tested);
    ASSERT_TRUE(trace) << trace.error().message;
    std::int64_t instances = 0;
    std::int64_t waited_ns = 0;
    for (const CollectiveWait& wait : stragglers(*trace).collectives) {
      instances += wait.instances;
      waited_ns += wait.waited.count();
    }
    EXPECT_EQ(instances, 2);
    EXPECT_EQ(waited_ns, tested.waited_ns);
  }
}

}  // namespace
}  // namespace commlens
