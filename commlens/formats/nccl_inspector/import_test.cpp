#include "commlens/formats/nccl_inspector/import.hpp"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::nccl_inspector {
namespace {

using test_support::ScratchDirectory;

Result<Trace> read_dump(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("host-pid1.log", text));
}

/// One call: "rank 1: all_reduce 8->8 of 0 1 kernel_gpu 1000+500"; hidden groups as "2x[name]".
std::vector<std::string> inspected_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  for (const RankStream& stream : trace->streams) {
    for (std::size_t row = 0; row < stream.events.size(); ++row) {
      const CommOp& op = trace->op(stream.events[row].op);
      std::string group;
      for (const Rank member : trace->groups.members(op.group, stream.ranks.first)) {
        group += fmt::format(" {}", member.value);
      }
      if (group.empty()) {
        group = fmt::format(" {}x[{}]", trace->groups.size(op.group), trace->groups.name(op.group));
      }
      const Times& times = stream.times.at(row);
      calls.push_back(fmt::format("rank {}: {} {}->{} of{} {} {}+{}", stream.ranks.first.value,
                                  name_of(op.kind), op.input.value, op.output.value, group,
                                  trace->names.text(op.note), times.started.count(),
                                  (times.finished - times.started).count()));
    }
  }
  return calls;
}

using InspectedCalls = std::vector<std::string>;

/// Synthetic, by the schema of version 4.0.
std::string inspector_line(int pid, std::string_view header, std::string_view call,
                           std::int64_t dumped = 1000) {
  return fmt::format(
      R"({{"header":{{{}}},"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"",)"
      R"("rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{},"hostname":"h","pid":{}}},{}}})"
      "\n",
      header, dumped, pid, call);
}

std::string inspector_header(std::string_view id, int rank, int ranks) {
  return fmt::format(R"("id":"{}","rank":{},"n_ranks":{},"nnodes":1)", id, rank, ranks);
}

std::string coll_perf(std::string_view function, std::int64_t bytes, std::int64_t us) {
  return fmt::format(
      R"("coll_perf":{{"coll":"{}","coll_sn":1,"coll_msg_size_bytes":{},"coll_exec_time_us":{},)"
      R"("coll_timing_source":"kernel_gpu","coll_algobw_gbs":1,"coll_busbw_gbs":1}})",
      function, bytes, us);
}

TEST(Inspector, TakesTheMessageSizeForARanksPartAsItsBandwidthDoes) {
  // The sample of NCCL's README: 2 GiB in 41,057 us on 8 ranks are 418.439467 and 366.134533 GB/s.
  const Result<Trace> trace = read_dump(inspector_line(1, inspector_header("0xe62dedaa97644a", 4, 8),
                                                       coll_perf("ReduceScatter", 2147483648, 41057)));
  ASSERT_TRUE(trace) << trace.error().message;
  const CommOp& op = trace->ops().at(0);
  EXPECT_EQ(op.output.value, 2147483648);
  EXPECT_EQ(message_bytes(op).value, 17179869184);
  EXPECT_EQ(trace->groups.size(op.group), 8);
  const Times& times = trace->streams.at(0).times.at(0);
  const auto duration = static_cast<double>((times.finished - times.started).count());
  EXPECT_EQ(duration, 41'057'000);
  const double algorithm_bandwidth = static_cast<double>(message_bytes(op).value) / duration;
  EXPECT_NEAR(algorithm_bandwidth, 418.439467, 1e-6);
  EXPECT_NEAR(algorithm_bandwidth * bus_factor(op.kind, 8), 366.134533, 1e-6);
}

TEST(Inspector, ReadsStartsFromVerboseDumps) {
  const std::string call =
      R"("coll_perf":{"coll":"AllReduce","coll_sn":7,"coll_msg_size_bytes":64,"coll_exec_time_us":20,)"
      R"("coll_timing_source":"kernel_cpu","event_trace_ts":{"coll_start_ts":100,"coll_stop_ts":105,"kernel_events":[)"
      R"({"channel_id":0,"kernel_start_ts":112,"kernel_stop_ts":130},{"channel_id":1,"kernel_start_ts":111}]}})";
  const std::string message =
      R"("p2p_perf":{"p2p":"Send","p2p_sn":8,"p2p_peer":0,"p2p_msg_size_bytes":9,"p2p_exec_time_us":3,)"
      R"("p2p_timing_source":"kernel_gpu","event_trace_ts":{"p2p_start_ts":200,"kernel_events":[]}})";
  const Result<Trace> trace = read_dump(inspector_line(1, inspector_header("0xa", 0, 2), call) +
                                        inspector_line(2, inspector_header("0xa", 1, 2), call) +
                                        inspector_line(2, inspector_header("0xa", 1, 2), message));
  EXPECT_EQ(inspected_calls(trace),
            (InspectedCalls{"rank 0: all_reduce 64->64 of 0 1 kernel_cpu 111000+20000",
                            "rank 1: all_reduce 64->64 of 0 1 kernel_cpu 111000+20000",
                            "rank 1: send 9->0 of 1 0 kernel_gpu 200000+3000"}));
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->provenance.skipped.empty());
}

TEST(Inspector, LaysCallsWithoutStartsOneBehindTheOther) {
  const std::string header = inspector_header("0xa", 0, 1);
  const Result<Trace> trace = read_dump(inspector_line(1, header, coll_perf("AllReduce", 8, 10), 100) +
                                        inspector_line(1, header, coll_perf("AllReduce", 8, 20), 100) +
                                        inspector_line(1, header, coll_perf("AllReduce", 8, 30), 1000));
  EXPECT_EQ(inspected_calls(trace), (InspectedCalls{"rank 0: all_reduce 8->8 of 0 kernel_gpu 90000+10000",
                                                    "rank 0: all_reduce 8->8 of 0 kernel_gpu 100000+20000",
                                                    "rank 0: all_reduce 8->8 of 0 kernel_gpu 970000+30000"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.assumed,
            (std::map<std::string, std::int64_t>{
                {"start of a call not reported, placed after the call before", 3}}));
  EXPECT_TRUE(trace->provenance.skipped.empty());
}

TEST(Inspector, ReadsAHeaderThatStandsOnceForManyCalls) {
  const std::string once =
      R"({"header":{"id":"0xa","comm_name":"DP","rank":0,"n_ranks":2},"metadata":{"inspector_output_format_version":)"
      R"("v4.2","dump_timestamp_us":100,"hostname":"h","pid":1}})"
      "\n";
  EXPECT_EQ(inspected_calls(read_dump(once + "{" + coll_perf("AllReduce", 8, 10) + "}\n{" +
                                      coll_perf("AllGather", 8, 10) + "}\n")),
            (InspectedCalls{"rank 0: all_reduce 8->8 of 2x[commId 0xa] kernel_gpu 90000+10000",
                            "rank 0: all_gather 8->16 of 2x[commId 0xa] kernel_gpu 100000+10000"}));
}

TEST(Inspector, TellsTheRanksOfAProcessWithSeveralGpus) {
  EXPECT_EQ(inspected_calls(
                read_dump(inspector_line(1, inspector_header("0xa", 1, 2), coll_perf("AllReduce", 8, 1)) +
                          inspector_line(1, inspector_header("0xa", 0, 2), coll_perf("AllReduce", 8, 2)))),
            (InspectedCalls{"rank 0: all_reduce 8->8 of 0 1 kernel_gpu 998000+2000",
                            "rank 1: all_reduce 8->8 of 0 1 kernel_gpu 999000+1000"}));
}

TEST(Inspector, GivesAProcessThatTakesTheRankOfAnotherAGroupWithItself) {
  const std::string call = coll_perf("AllReduce", 8, 1);
  EXPECT_EQ(inspected_calls(read_dump(inspector_line(1, inspector_header("0xa", 0, 2), call) +
                                      inspector_line(2, inspector_header("0xa", 1, 2), call) +
                                      inspector_line(3, inspector_header("0xa", 1, 2), call))),
            (InspectedCalls{"rank 0: all_reduce 8->8 of 0 1 kernel_gpu 999000+1000",
                            "rank 1: all_reduce 8->8 of 0 1 kernel_gpu 999000+1000",
                            "rank 2: all_reduce 8->8 of 0 2 kernel_gpu 999000+1000"}));
}

TEST(Inspector, LeavesOutRootsThatAreNotTold) {
  const Result<Trace> trace =
      read_dump(inspector_line(1, inspector_header("0xa", 0, 2), coll_perf("Broadcast", 8, 1)) +
                inspector_line(2, inspector_header("0xa", 1, 2), coll_perf("Broadcast", 8, 1)));
  EXPECT_EQ(inspected_calls(trace),
            (InspectedCalls{"rank 0: broadcast 8->8 of 2x[] kernel_gpu 999000+1000",
                            "rank 1: broadcast 8->8 of 2x[] kernel_gpu 999000+1000"}));
}

TEST(Inspector, CountsWhatItCannotUse) {
  const std::string header = inspector_header("0xa", 0, 2);
  const Result<Trace> trace = read_dump(
      "{" + coll_perf("AllReduce", 8, 1) + "}\n" + inspector_line(1, header, coll_perf("AllReduce", 8, 1)) +
      inspector_line(1, header, coll_perf("Teleport", 8, 1)) +
      inspector_line(1, header, coll_perf("AllReduce", -8, 1)) +
      inspector_line(1, header, coll_perf("AllReduce", 8, -1)) +
      inspector_line(1, inspector_header("0xa", 2, 2), coll_perf("AllReduce", 8, 1)) +
      inspector_line(1, header, coll_perf("AllGather", std::int64_t{1} << 50, 1)) +
      inspector_line(1, header, coll_perf("AllReduce", 8, 1)).substr(0, 150) + "\n[1]\nnull\n\n");
  EXPECT_EQ(inspected_calls(trace),
            InspectedCalls{"rank 0: all_reduce 8->8 of 2x[commId 0xa] kernel_gpu 999000+1000"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"call before any header", 2},
                                                 {"call of a function we do not know", 1},
                                                 {"call with impossible fields", 3},
                                                 {"line that is no JSON object or is cut off", 3}}));
  EXPECT_EQ(trace->provenance.assumed.at("start of a call not reported, placed after the call before"), 1);
}

TEST(Inspector, RefusesAFileWithoutCalls) {
  for (const std::string_view text : {"", "{}\n", "hello\n", "{\"header\":{}}\n"}) {
    EXPECT_NE(inspected_calls(read_dump(text))[0].find("no call of the NCCL Inspector"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace commlens::formats::nccl_inspector
