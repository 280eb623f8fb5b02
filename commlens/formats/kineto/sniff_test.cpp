#include "commlens/formats/kineto/sniff.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/write_export.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::kineto {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;

constexpr std::size_t k_head = std::size_t{64} << 10;

bool sniffed(std::string_view text) {
  const ScratchDirectory directory;
  return sniff(directory.write("trace.json", text), text.substr(0, k_head));
}

std::string event(std::string_view category, std::string_view name, std::string_view arguments = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {{{}}}}})",
      category, name, arguments);
}

std::string events_alone(std::string_view events) {
  return fmt::format(R"({{"traceEvents": [{}]}})", events);
}

constexpr const char* k_all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

TEST(SniffKineto, KnowsTheCategoriesOfItsEventsWithoutASchemaVersion) {
  for (const std::string& events :
       {event("cpu_op", "aten::add"), event("user_annotation", "ProfilerStep#3"),
        event("cuda_runtime", "cudaLaunchKernel", R"("correlation": 9)"), event("hip_runtime", "hipMemcpy"),
        event("python_function", "main"), event("kernel", k_all_reduce, R"("correlation": 9)"),
        event("kernel", k_all_reduce, R"("Collective name": "allreduce")"),
        event("Kernel", "gemm") + "," + event("Operator", "add"),
        event("else", "first") + "," + event("gpu_memcpy", "Memcpy HtoD")}) {
    EXPECT_TRUE(sniffed(events_alone(events))) << events;
  }
}

TEST(SniffKineto, TellsItFromOtherChromeTraces) {
  for (const std::string& events :
       {std::string(), event("toplevel", "MessageLoop::RunTask"), event("kernel", "gemm"),
        event("dp", "all_reduce"), event("Operator", "add"),
        std::string(R"({"ph": "X", "name": "no category", "ts": 1, "dur": 1})"),
        event("FEE", "f", R"("cat": "cpu_op")"), std::string(R"("cpu_op")")}) {
    EXPECT_FALSE(sniffed(events_alone(events))) << events;
  }
  EXPECT_FALSE(sniffed(R"({"deviceProperties": [], "nodes": [)" + event("cpu_op", "f") + "]}"));
  EXPECT_FALSE(sniffed("[" + event("cpu_op", "f") + "]"));
}

TEST(SniffKineto, LooksBehindLongMetadataAndLongMembers) {
  std::string metadata;
  for (int thread = 0; thread < 2000; ++thread) {
    metadata += fmt::format(
        R"({{"ph": "M", "name": "thread_name", "pid": 1, "tid": {}, "args": {{"name": "thread"}}}},)",
        thread);
  }
  ASSERT_GT(metadata.size(), k_head);
  EXPECT_TRUE(sniffed(events_alone(metadata + event("cpu_op", "aten::add"))));
  EXPECT_FALSE(sniffed(events_alone(metadata + event("toplevel", "task"))));
  // The keys in alphabetical order, and a job of so many groups that the events come later than the head
  // ends.
  const std::string groups(k_head, ' ');
  EXPECT_TRUE(sniffed(fmt::format(
      R"({{"distributedInfo": {{"rank": 0,{} "world_size": 2}}, "schemaVersion": 1, "traceEvents": []}})",
      groups)));
  EXPECT_TRUE(
      sniffed(fmt::format(R"({{"distributedInfo": {{"rank": 0,{} "world_size": 2}}, "traceEvents": [{}]}})",
                          groups, event("cpu_op", "aten::add"))));
}

/// The same members in three orders: as Kineto writes them, events first, and without schemaVersion.
TEST(SniffKineto, AllOrdersOfTheMembersGiveTheSameTrace) {
  const std::string job = R"("distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2})";
  const std::string base = R"("baseTimeNanoseconds": 1700000000000000000)";
  const std::string events =
      R"("traceEvents": [)" + event("cuda_runtime", "cudaLaunchKernel", R"("correlation": 9)") + "," +
      event("kernel", k_all_reduce,
            R"("correlation": 9, "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100,
               "Group size": 2, "dtype": "Float", "Process Group Ranks": "[0, 1]")") +
      "]";
  const std::string schema = R"("schemaVersion": 1)";
  const ScratchDirectory directory;
  const Result<Trace> usual =
      import_any(directory.write("a.json", fmt::format("{{{}, {}, {}, {}}}", schema, job, base, events)));
  ASSERT_TRUE(usual) << usual.error().message;
  ASSERT_EQ(spelled_calls(*usual, Rank{1}).size(), 1U);
  EXPECT_EQ(usual->streams.at(0).times.at(0).started.count(), 1'700'000'000'000'005'000);
  for (const std::string& text : {fmt::format("{{{}, {}, {}, {}}}", events, schema, job, base),
                                  fmt::format("{{{}, {}, {}}}", events, base, job),
                                  fmt::format("{{{}, {}, {}, {}}}", base, job, schema, events)}) {
    const Result<Trace> other = import_any(directory.write("b.json", text));
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ(spelled_calls(*other, Rank{1}), spelled_calls(*usual, Rank{1})) << text;
    EXPECT_EQ(other->streams.at(0).times, usual->streams.at(0).times) << text;
  }
}

TEST(SniffKineto, LeavesOurOwnTimelinesAlone) {
  const ScratchDirectory directory;
  const Result<Trace> trace = import_any(
      directory.write("a.json", events_alone(event("kernel", k_all_reduce, R"("correlation": 9)"))));
  ASSERT_TRUE(trace) << trace.error().message;
  const std::filesystem::path ours = directory / "ours.json";
  ASSERT_TRUE(write_export(*exporter_named("perfetto"), *trace, {}, ours.string()));
  const Result<Trace> again = import_any(ours);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("an export of commlens"), std::string::npos) << again.error().message;
}

TEST(SniffKineto, KnowsRealTracesThatLostTheirSchemaVersion) {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  if (data == nullptr) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
  }
  const std::filesystem::path kineto = std::filesystem::path(data) / "golden/foreign/kineto";
  for (const char* const name : {"amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
                                 "cpu_only_gloo/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
                                 "dlrm_kineto_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
                                 "trace_filter_128rank/sampled_rank-0.json.gz"}) {
    const Result<std::string> text = read_head(kineto / name, std::size_t{64} << 20);
    ASSERT_TRUE(text) << text.error().message;
    std::string without = *text;
    const std::string key = R"("schemaVersion": 1,)";
    without.erase(without.find(key), key.size());
    const ScratchDirectory directory;
    const Result<Trace> trace = import_any(directory.write("rank0.json", *text));
    const Result<Trace> other = import_any(directory.write("rank0.json", without));
    ASSERT_TRUE(trace && other) << name;
    ASSERT_EQ(trace->streams.size(), other->streams.size()) << name;
    EXPECT_EQ(other->ops(), trace->ops()) << name;
    for (std::size_t stream = 0; stream < trace->streams.size(); ++stream) {
      EXPECT_EQ(other->streams[stream].times, trace->streams[stream].times) << name;
    }
  }
}

}  // namespace
}  // namespace commlens::formats::kineto
