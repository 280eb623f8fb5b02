#include "commlens/formats/nccl_profiler_plugin/import.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats::nccl_profiler_plugin {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;

Result<Trace> read_plugin(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("dump.json", text));
}

/// Calls of one rank: "send fp32 4->0 of 0 1 [ring ll] 0+0".
std::vector<std::string> plugin_calls(const Result<Trace>& trace, std::int64_t rank) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  for (const test_support::SpelledCall& call : spelled_calls(*trace, Rank{rank})) {
    std::string group;
    for (const Rank member : call.group) {
      group += fmt::format(" {}", member.value);
    }
    calls.push_back(fmt::format("{} {} {}->{} of{} [{} {}] {}+{}", name_of(call.kind), name_of(call.dtype),
                                call.input, call.output, group, name_of(call.algorithm),
                                name_of(call.protocol), call.started, call.duration));
  }
  return calls;
}

using PluginCalls = std::vector<std::string>;

std::string plugin_call(std::string_view name, std::string_view more, std::string_view category = "COLL") {
  return fmt::format(
      R"({{"name": "{}", "cat": "{}", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 1.5, "args": )"
      R"({{"CommHash": 17093776592125785438, "Rank": 0, "Count": 8, {}}}}},)"
      "\n",
      name, category, more);
}

std::string plugin_channel(std::int64_t start, std::int64_t stop) {
  return fmt::format(
      R"({{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 2.5, "args": )"
      R"({{"Channel": 0, "StartGpuClk": {}, "StopGpuClk": {}}}}},)"
      "\n",
      start, stop);
}

TEST(ProfilerPlugin, TakesTheLongestSpanOfAllChannels) {
  const std::string text =
      "[\n" + plugin_call("AllReduce", R"("Datatype": ncclFloat16, "Algorithm": "RING", "Protocol": "LL")") +
      plugin_channel(1000, 1500) + plugin_channel(990, 1400) +
      R"({"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 7, "tid": 1, "ts": 9.5},)"
      "\n" +
      plugin_channel(1, 9999);
  EXPECT_EQ(plugin_calls(read_plugin(text), 0), PluginCalls{"all_reduce fp16 8->8 of [ring ll] 990+510"});
}

TEST(ProfilerPlugin, NotesWordsThatAreNoKnownAlgorithm) {
  const auto note_of = [](std::string_view arguments) {
    const Result<Trace> trace = read_plugin(plugin_call("AllReduce", std::string(arguments)));
    return trace ? trace->names.text(trace->ops().at(0).note) : trace.error().message;
  };
  EXPECT_EQ(note_of(R"("Datatype": ncclFloat16, "Algorithm": "RING", "Protocol": "LL")"), "");
  EXPECT_EQ(note_of(R"("Datatype": ncclFloat16, "Algorithm": "BRUCK", "Protocol": "LL")"), "BRUCK LL");
}

TEST(ProfilerPlugin, HasNoTimeWhereAChannelLacksItsStop) {
  const std::string text = plugin_call("AllReduce", R"("Datatype": "ncclInt8")") +
                           plugin_channel(1000, 1500) + plugin_channel(990, 0);
  EXPECT_EQ(plugin_calls(read_plugin(text), 0), PluginCalls{"all_reduce int8 8->8 of [unknown unknown] 0+0"});
}

TEST(ProfilerPlugin, SaysWhatNeedsTheNumberOfRanks) {
  const Result<Trace> trace = read_plugin(plugin_call("AllGather", R"("Datatype": "ncclFloat32")"));
  EXPECT_EQ(plugin_calls(trace, 0), PluginCalls{"other fp32 8->0 of [unknown unknown] 0+0"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->names.text(trace->ops()[0].name), "AllGather of unknown ranks, a rank's part");
}

TEST(ProfilerPlugin, CountsWhatItCannotUseAndRefusesTheRest) {
  const std::string good = plugin_call("AllReduce", R"("Datatype": "ncclInt8")");
  const Result<Trace> trace =
      read_plugin(good + plugin_call("Teleport", R"("Datatype": "ncclInt8")") +
                  plugin_call("AllReduce", R"("Datatype": "ncclInt9")") + good.substr(0, 120));
  EXPECT_EQ(plugin_calls(trace, 0).size(), 1U);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{
                {"call that is cut off or of an unknown function or datatype", 3}}));
  for (const std::string_view text : {"", "[]", "hello\n"}) {
    EXPECT_NE(plugin_calls(read_plugin(text), 0)[0].find("no call (category COLL or P2P)"),
              std::string::npos);
  }
}

class PublishedPlugin : public ::testing::Test {
 protected:
  static Result<Trace> read(std::string_view name) {
    return nccl_profiler_plugin::read(std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) /
                                      "golden/foreign/nccl_profiler" / name);
  }
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
};

TEST_F(PublishedPlugin, DumpsHaveTheseCalls) {
  EXPECT_EQ(plugin_calls(read("nccl_1765_ext-profiler_v1.json.txt"), 0),
            PluginCalls{"all_reduce fp32 2097152->2097152 of [ring ll128] 0+0"});
  // One of its two channels has no stop.
  EXPECT_EQ(plugin_calls(read("nccl_1973_kernelch.json.txt"), 0),
            PluginCalls{"all_reduce fp32 33554432->33554432 of [ring simple] 0+0"});
  const Result<Trace> ring = read("pha-Z_v5_p2p_trace_lines.json.txt");
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::int64_t next = (rank + 1) % 4;
    const std::int64_t previous = (rank + 3) % 4;
    EXPECT_EQ(
        plugin_calls(ring, rank),
        (PluginCalls{fmt::format("send fp32 268435456->0 of {} {} [unknown unknown] 0+0", rank, next),
                     fmt::format("recv fp32 0->268435456 of {} {} [unknown unknown] 0+0", previous, rank)}));
  }
}

}  // namespace
}  // namespace commlens::formats::nccl_profiler_plugin
