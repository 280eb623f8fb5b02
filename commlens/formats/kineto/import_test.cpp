#include "commlens/formats/kineto/import.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/io/file_rank.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/kineto/calls.hpp"
#include "commlens/formats/kineto/events.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::kineto {
namespace {

using std::chrono::nanoseconds;
using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

constexpr const char* k_job =
    R"("distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4,
        "pg_config": [{"pg_name": "1", "pg_size": 2, "ranks": [2, 3]}, {"pg_name": "0", "pg_size": 4, "ranks": []}]})";

std::string trace_of(const std::string& events, const std::string& job = k_job) {
  return fmt::format(R"({{"schemaVersion": 1, {}, "traceEvents": [{}]}})", job, events);
}

std::string kernel(const std::string& name, const std::string& start, const std::string& duration,
                   int correlation, const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"correlation": {}{}}}}},)",
      name, start, duration, correlation, more);
}

std::string cpu(const std::string& category, const std::string& name, int start, int duration,
                const std::string& arguments) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 9, "tid": 9, "ts": {}, "dur": {}, "args": {{{}}}}},)",
      category, name, start, duration, arguments);
}

std::string launch(int correlation, int at) {
  return cpu("cuda_runtime", "cudaLaunchKernel", at, 5, fmt::format(R"("correlation": {})", correlation));
}

Trace read_profile(const std::string& text) {
  const ScratchDirectory directory;
  Result<Trace> trace = read(directory.write("trace.json", text));
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return trace ? std::move(*trace) : Trace();
}

constexpr const char* k_metadata =
    R"(, "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 200, "Group size": 2,
        "dtype": "BFloat16", "Process Group Name": "1", "Process Group Ranks": "[2, 3]")";

TEST(Kineto, BelievesTheMetadataOfAKernelFirst) {
  // The annotation around its launch speaks of something else.
  const Trace trace = read_profile(trace_of(
      cpu("user_annotation", "nccl:all_reduce", 90, 40, R"("Input Dims": [[5]], "Input type": ["float"])") +
      launch(1, 100) + kernel("ncclDevKernel_Generic(x)", "1000.125", "2.375", 1, k_metadata)));
  ASSERT_EQ(trace.streams.size(), 1U);
  EXPECT_EQ(trace.streams[0].ranks.first, Rank{2});
  const std::vector<SpelledCall> calls = spelled_calls(trace, Rank{2});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].kind, CommKind::all_gather);
  EXPECT_EQ(calls[0].dtype, DType::bf16);
  EXPECT_EQ(calls[0].input, 100);
  EXPECT_EQ(calls[0].output, 200);
  EXPECT_EQ(calls[0].group, (std::vector<Rank>{Rank{2}, Rank{3}}));
  EXPECT_EQ(calls[0].started, 1'000'125);
  EXPECT_EQ(calls[0].duration, 2'375);
}

TEST(Kineto, AsksTheCpuOpsAroundTheLaunchNext) {
  const std::string around =
      cpu("cpu_op", "c10d::alltoall_base_", 80, 60,
          R"("Input Dims": [[30], [20], []], "Input type": ["float", "float", ""])") +
      cpu("cpu_op", "record_param_comms", 85, 50, "") +
      cpu("user_annotation", "nccl:all_to_all", 90, 40, R"("Input Dims": [[4, 5]], "Input type": ["float"])");
  const Trace trace = read_profile(trace_of(around + launch(1, 100) + launch(2, 110) +
                                            kernel("ncclKernel_SendRecv_RING(x)", "500", "10", 1) +
                                            kernel("ncclKernel_SendRecv_RING(x)", "520", "10", 2)));
  const std::vector<SpelledCall> calls = spelled_calls(trace, Rank{2});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].kind, CommKind::all_to_all);
  EXPECT_EQ(calls[0].input, 20);
  EXPECT_EQ(calls[0].output, 30);
  EXPECT_TRUE(calls[0].group.empty());
  // The sizes are of the call and go to its first kernel; of the second only the name is known.
  EXPECT_EQ(calls[1].kind, CommKind::other);
  EXPECT_EQ(calls[1].name, "ncclKernel_SendRecv_RING");
  EXPECT_EQ(calls[1].input, 0);
}

TEST(Kineto, TellsTheSizeOfAGroupByItsShards) {
  const Trace trace = read_profile(
      trace_of(cpu("cpu_op", "c10d::_allgather_base_", 80, 60,
                   R"("Input Dims": [[80], [10], []], "Input type": ["signed char", "signed char", ""])") +
               launch(1, 100) + kernel("ncclKernel_AllGather(x)", "500", "10", 1)));
  const CommOp& op = trace.op(trace.streams.at(0).events.at(0).op);
  EXPECT_EQ(op.kind, CommKind::all_gather);
  EXPECT_EQ(op.output, Elements{80});
  EXPECT_EQ(trace.groups.size(op.group), 8);
  EXPECT_FALSE(trace.groups.knows_members(op.group));
}

TEST(Kineto, TakesTheKernelsNameLast) {
  const Trace trace = read_profile(trace_of(
      kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "1", "1", 1) +
      kernel("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", "3", "1", 2) +
      kernel("void vllm::cross_device_reduce_1stage<half, 4>(x)", "5", "1", 3) +
      kernel("triton_poi_fused_all_reduce_add_0", "7", "1", 4) +
      kernel("ampere_sgemm_128x64_tn", "9", "1", 5)));
  EXPECT_EQ(trace.streams.at(0).events.size(), 3U);
  for (const CommEvent& event : trace.streams[0].events) {
    EXPECT_EQ(trace.op(event.op).kind, CommKind::all_reduce);
  }
  EXPECT_EQ(trace.streams[0].compute.size(), 2U);
}

TEST(Kineto, KnowsTheKernelsThatCarryTokensToExperts) {
  const Trace trace =
      read_profile(trace_of(kernel("void dpsk::ep::internode::dispatch_ll<true, 7, 4>(void*)", "1", "1", 1) +
                            kernel("void deep_ep::intranode::combine<__nv_bfloat16, 8>(x)", "3", "1", 2) +
                            kernel("void deep_ep::intranode::notify_dispatch<8>(x)", "5", "1", 3) +
                            kernel("void deep_ep::layout::get_dispatch_layout<32, 4, 8>(x)", "7", "1", 4)));
  std::vector<CommKind> kinds;
  for (const CommEvent& event : trace.streams.at(0).events) {
    kinds.push_back(trace.op(event.op).kind);
  }
  EXPECT_EQ(kinds, (std::vector{CommKind::all_to_all, CommKind::all_to_all, CommKind::other}));
  EXPECT_EQ(trace.streams[0].compute.size(), 1U);  // the layout is counted on one GPU
}

TEST(Kineto, TakesNoPartOfAWordForALibrary) {
  const Trace trace =
      read_profile(trace_of(kernel("flash_combine_kernel(x)", "1", "1", 1) +  // not hcom
                            kernel("prep_dispatch_kernel(x)", "3", "1", 2) +  // not EpDispatch
                            kernel("void step_combine<8>(x)", "5", "1", 3)));
  EXPECT_EQ(trace.streams.at(0).events.size(), 0U);
  EXPECT_EQ(trace.streams.at(0).compute.size(), 3U);
}

TEST(Kineto, GivesEventsTheStepOfTheirLaunch) {
  // Step 4 launches a kernel that runs in step 5; the last one was launched outside of all steps.
  const Trace trace = read_profile(trace_of(cpu("user_annotation", "ProfilerStep#4", 100, 100, "") +
                                            cpu("user_annotation", "ProfilerStep#5", 300, 100, "") +
                                            launch(1, 150) + launch(2, 310) + launch(3, 250) +
                                            kernel("ncclKernel_AllReduce(x)", "350", "10", 1) +
                                            kernel("gemm", "380", "10", 2) + kernel("gemm", "400", "10", 3)));
  ASSERT_EQ(trace.streams.at(0).events.size(), 1U);
  EXPECT_EQ(trace.streams[0].events[0].iteration, 4);
  EXPECT_EQ(trace.streams[0].compute.at(0).iteration, 5);
  EXPECT_EQ(trace.streams[0].compute.at(1).iteration, k_unknown_iteration);
}

TEST(Kineto, ReadsPairsRootsAndBarriers) {
  const std::string send =
      R"(, "Collective name": "send", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float",
      "Group size": 2, "Process Group Name": "1", "Rank": 1, "Dst Rank": 3)";
  const std::string recv =
      R"(, "Collective name": "recv", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float",
      "Group size": 2, "Process Group Name": "1", "Rank": 1, "Src Rank": 3)";
  const std::string broadcast = R"(, "Collective name": "broadcast", "In msg nelems": 8, "Out msg nelems": 8,
      "dtype": "Long", "Group size": 2, "Process Group Name": "1", "Rank": 1)";
  const std::string rootless = R"(, "Collective name": "broadcast", "In msg nelems": 8, "Out msg nelems": 8,
      "dtype": "Long", "Group size": 2, "Process Group Name": "1")";
  const std::string barrier = R"(, "Collective name": "barrier", "In msg nelems": 1, "Out msg nelems": 1,
      "dtype": "Byte", "Group size": 4, "Process Group Name": "0", "Process Group Ranks": "[0, 1, ...]")";
  const Trace trace = read_profile(trace_of(kernel("ncclDevKernel_SendRecv(x)", "1", "1", 1, send) +
                                            kernel("ncclDevKernel_SendRecv(x)", "2", "1", 2, recv) +
                                            kernel("ncclDevKernel_Broadcast(x)", "3", "1", 3, broadcast) +
                                            kernel("ncclDevKernel_Broadcast(x)", "4", "1", 4, rootless) +
                                            kernel("ncclDevKernel_AllReduce(x)", "5", "1", 5, barrier)));
  const std::vector<SpelledCall> calls = spelled_calls(trace, Rank{2});
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_EQ(calls[0].kind, CommKind::send);
  EXPECT_EQ(calls[0].group, (std::vector<Rank>{Rank{2}, Rank{3}}));
  EXPECT_EQ(calls[0].input, 8);
  EXPECT_EQ(calls[0].output, 0);
  EXPECT_EQ(calls[1].kind, CommKind::recv);
  EXPECT_EQ(calls[1].group, (std::vector<Rank>{Rank{3}, Rank{2}}));
  EXPECT_EQ(calls[1].input, 0);
  EXPECT_EQ(calls[1].output, 8);
  EXPECT_EQ(calls[2].root, 1);  // group rank of rank 3
  EXPECT_EQ(calls[3].root, -1);
  EXPECT_EQ(calls[4].kind, CommKind::barrier);
  EXPECT_EQ(calls[4].group.size(), 4U);  // as many as the job has
}

TEST(Kineto, TakesCpuOpsWhereNoKernelCommunicates) {
  const Trace trace =
      read_profile(trace_of(cpu("user_annotation", "ProfilerStep#7", 0, 1000, "") +
                            cpu("cpu_op", "c10d::allreduce_", 100, 50,
                                R"("Input Dims": [[], []], "Input type": ["TensorList", ""])") +
                            cpu("user_annotation", "gloo:all_reduce", 110, 30,
                                R"("Input Dims": [[10, 10]], "Input type": ["float"])") +
                            cpu("user_annotation", "gloo:barrier", 300, 10, "")));
  const std::vector<SpelledCall> calls = spelled_calls(trace, Rank{2});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].kind, CommKind::all_reduce);
  EXPECT_EQ(calls[0].input, 100);
  EXPECT_EQ(calls[0].dtype, DType::fp32);
  EXPECT_EQ(calls[0].started, 100'000);
  EXPECT_EQ(calls[0].duration, 50'000);
  EXPECT_EQ(calls[0].iteration, 7);
  EXPECT_EQ(calls[1].kind, CommKind::barrier);
}

/// gloo makes a call on one thread and carries it out on another.
TEST(Kineto, CountsACallOnTwoThreadsOnce) {
  const std::string made =
      cpu("cpu_op", "c10d::allreduce_", 100, 10, R"("Input Dims": [[]], "Input type": [""])");
  const std::string carried_out =
      R"({"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 9, "tid": 3, "ts": 120, "dur": 900,)"
      R"( "args": {"Input Dims": [[10]], "Input type": ["float"]}},)";
  const std::vector<SpelledCall> calls = spelled_calls(read_profile(trace_of(made + carried_out)), Rank{2});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].input, 10);
  EXPECT_EQ(calls[0].duration, 900'000);
}

/// A coalesced call is several, each with its own metadata.
TEST(Kineto, TakesEveryCallOfACoalescedOne) {
  const std::string part =
      R"("Collective name": "allreduce", "In msg nelems": {}, "Out msg nelems": {}, "dtype": "Float")";
  const std::vector<SpelledCall> calls = spelled_calls(
      read_profile(
          trace_of(cpu("cpu_op", "c10d::allreduce_coalesced_", 100, 50, "") +
                   cpu("cpu_op", "record_param_comms", 110, 5, fmt::format(fmt::runtime(part), 4, 4)) +
                   cpu("cpu_op", "record_param_comms", 120, 6, fmt::format(fmt::runtime(part), 8, 8)))),
      Rank{2});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].input, 4);
  EXPECT_EQ(calls[0].duration, 5'000);
  EXPECT_EQ(calls[1].input, 8);
  EXPECT_EQ(calls[1].started, 120'000);
}

/// Ranks have one clock only when the base of their stamps is added.
TEST(Kineto, AddsTheBaseOfItsStamps) {
  const Trace trace =
      read_profile(trace_of(kernel("ncclKernel_AllReduce(x)", "350.5", "10", 1) + kernel("gemm", "1", "1", 2),
                            R"("baseTimeNanoseconds": 1711964646000000000)"));
  EXPECT_EQ(trace.streams.at(0).times.at(0).started.count(), 1711964646000350500);
  EXPECT_EQ(trace.streams[0].compute.at(0).started.count(), 1711964646000001000);
}

TEST(Kineto, SaysHowManyRanksTheJobHas) {
  const std::string event = kernel("ncclKernel_AllReduce(x)", "350", "10", 1);
  EXPECT_EQ(read_profile(trace_of(event)).job_ranks(), 4);  // world_size, of which the file is rank 2
  for (const char* const size : {"0", "-4", "99999999999"}) {
    const std::string job = fmt::format(R"("distributedInfo": {{"rank": 2, "world_size": {}}})", size);
    EXPECT_EQ(read_profile(trace_of(event, job)).provenance.job_ranks, 0) << size;
  }
}

TEST(Kineto, CountsWhatItLeavesOut) {
  const Trace trace = read_profile(trace_of(
      std::string(R"({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 1, "dur": 1},)") +
      R"({"ph": "M", "name": "process_name", "pid": 1}, 17, {"ph": "X", "cat": "kernel", "name": "k"},)" +
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -1},)" +
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1e300, "dur": 1},)" +
      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"\xff\", \"ts\": 1, \"dur\": 1}," +
      R"({"ph": "X" "cat": "kernel"},)" + kernel("ncclKernel_AllReduce(x)", "350", "10", 1)));
  EXPECT_EQ(trace.streams.at(0).events.size(), 1U);
  const std::map<std::string, std::int64_t> expected = {{"event of memory copied or set", 1},
                                                        {"event of the CPU", 1},
                                                        {"event without a time", 3},
                                                        {"event in broken JSON", 3}};
  EXPECT_EQ(trace.provenance.skipped, expected);
}

TEST(Kineto, ReadsATraceThatWasCutOffAndSaysSo) {
  const std::string text =
      trace_of(kernel("ncclKernel_AllReduce(x)", "350", "10", 1) + kernel("gemm", "380", "10", 2));
  const Trace trace = read_profile(text.substr(0, text.size() - 40));
  EXPECT_EQ(trace.streams.at(0).events.size(), 1U);
  EXPECT_EQ(trace.provenance.skipped.at("record cut off at the end of the file"), 1);
}

TEST(Kineto, RefusesATraceWithoutEvents) {
  const ScratchDirectory directory;
  const auto path = directory.write("t.json", R"({"schemaVersion": 1, "deviceProperties": []})");
  const Result<Trace> trace = read(path);
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().message, path + ": no traceEvents in it");
}

TEST(NanosecondsOf, IsExact) {
  EXPECT_EQ(nanoseconds_of("4458677009853.422"), 4458677009853422);
  EXPECT_EQ(nanoseconds_of("1694128201429795"), 1694128201429795000);
  EXPECT_EQ(nanoseconds_of("1694128201429795.001"), 1694128201429795001);
  EXPECT_EQ(nanoseconds_of("0.5"), 500);
  EXPECT_EQ(nanoseconds_of("0.0005"), 1);
  EXPECT_EQ(nanoseconds_of("0.00049"), 0);
  EXPECT_EQ(nanoseconds_of("-1.5"), -1500);
  EXPECT_EQ(nanoseconds_of("1.5e3"), 1'500'000);
  for (const char* bad : {"", "-", "x", "1.2.3", "99999999999999999999", "2305843009213693952",
                          "9223372036854775.807", "1e300", "nan", "1e", ".5"}) {
    EXPECT_FALSE(nanoseconds_of(bad).has_value()) << bad;
  }
}

TEST(ElementCounts, AreProductsOfTheInnermostLists) {
  EXPECT_EQ(element_counts("[[394241]]"), std::vector<std::int64_t>{394241});
  EXPECT_EQ(element_counts("[[4, 5], [3], []]"), (std::vector<std::int64_t>{20, 3, 1}));
  EXPECT_EQ(element_counts("[[0, 5]]"), std::vector<std::int64_t>{0});
  EXPECT_TRUE(element_counts("").empty());
  EXPECT_GT(element_counts("[[99999999999, 99999999999, 99999999999]]").at(0), std::int64_t{1} << 50);
}

TEST(RankByWord, ReadsTheNameOfAFile) {
  EXPECT_EQ(rank_by_word("x/rank-34.Jul_15.pt.trace.json.gz"), 34);
  EXPECT_EQ(rank_by_word("worker3_step_12.1694128201557.pt.trace.json.gz"), 3);
  EXPECT_EQ(rank_by_word("sampled_rank_1.json"), 1);
  EXPECT_EQ(rank_by_word("ranks_rank7.json"), 7);
  EXPECT_FALSE(rank_by_word("libkineto_activities_1074.json").has_value());
  EXPECT_FALSE(rank_by_word("rank-x.json").has_value());
}

}  // namespace
}  // namespace commlens::formats::kineto
