// The profiler plug-in under a host that drives each version of the interface (plugin_program.cpp).
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/manifest.hpp"
#include "nccl_job.hpp"

namespace commlens::test {
namespace {

constexpr const char* k_enqueued = "enqueued only";

std::string command(int version, const std::string& scenario) {
  return fmt::format("NCCL_PROFILER_PLUGIN={} {} {} {}", library("commlens-nccl-profiler"),
                     program("plugin_program"), version, scenario);
}

/// The calls of rank `rank` of the job's four, by hand from plugin_program.cpp. Before v5 the interface has
/// bytes where NCCL gathers or broadcasts.
struct Expected {
  int version;
  int rank;
  Counts counts;

  void add(const std::string& call, bool is_complete, int times = 1) {
    // v1 and v2 do not report kernels.
    const bool is_enqueued = !is_complete || version < 3;
    counts[fmt::format("{} {}{}", rank, call, is_enqueued ? fmt::format(" | {}", k_enqueued) : "")] += times;
  }
  void add_world() {
    const bool has_types = version >= 5;
    constexpr std::array<int, 4> next = {1, 2, 3, 0};
    constexpr std::array<int, 4> before = {3, 0, 1, 2};
    add("ncclAllReduce all_reduce fp32 1000 1000 0,1,2,3 -1", true);
    add(has_types ? "ncclAllGather all_gather fp32 16 64 0,1,2,3 -1"
                  : "ncclAllGather all_gather int8 64 256 0,1,2,3 -1",
        true);
    add("ncclReduceScatter reduce_scatter bf16 32 8 0,1,2,3 -1", true);
    add(has_types ? "ncclBroadcast broadcast fp64 3 3 0,1,2,3 3"
                  : "ncclBroadcast broadcast int8 24 24 0,1,2,3 3",
        true);
    add("ncclReduce reduce int32 5 5 0,1,2,3 1", true);
    add("ncclAllReduce all_reduce int8 1 1 0,1,2,3 -1", true);
    add("ncclAllReduce all_reduce uint8 6 6 0,1,2,3 -1", true);
    add(fmt::format("ncclSend send fp16 2 0 {},{} -1", rank, next.at(static_cast<std::size_t>(rank))), true);
    add(fmt::format("ncclRecv recv fp16 0 2 {},{} -1", before.at(static_cast<std::size_t>(rank)), rank),
        true);
  }
  void add_half() {
    constexpr std::array<const char*, 4> members = {"2,0", "3,1", "2,0", "3,1"};
    constexpr std::array<int, 4> other = {2, 3, 0, 1};
    const std::string group = members.at(static_cast<std::size_t>(rank));
    add(version >= 5 ? fmt::format("ncclAllGather all_gather fp32 11 22 {} -1", group)
                     : fmt::format("ncclAllGather all_gather int8 44 88 {} -1", group),
        true);
    add(fmt::format("ncclSend send int64 12 0 {},{} -1", rank, other.at(static_cast<std::size_t>(rank))),
        true);
  }
  void add_rest() {
    add("ncclAllReduce all_reduce fp32 21 21 0,1,2,3 -1", true);
    add("ncclAllReduce all_reduce fp32 22 22 0,1,2,3 -1", true);
    add("ncclAllReduce all_reduce int32 31 31 0,1,2,3 -1", false);
    add("ncclAllReduce all_reduce int32 32 32 0,1,2,3 -1", false);
    add(version >= 5 ? "ncclAllGather all_gather bf16 41 164 0,1,2,3 -1"
                     : "ncclAllGather all_gather int8 82 328 0,1,2,3 -1",
        false, 2);
    if (version >= 6) {
      add("ncclAlltoAll all_to_all fp32 204 204 0,1,2,3 -1", false);
      add("ncclAllGather all_gather fp32 52 208 0,1,2,3 -1", false);
    }
    if (version >= 5) {
      constexpr std::array<const char*, 4> halves = {"2,0", "3,1", "2,0", "3,1"};
      add("ncclBroadcast broadcast fp32 81 81 0,1,2,3 2", false);
      add(fmt::format("ncclBroadcast broadcast fp32 84 84 {} 1", halves.at(static_cast<std::size_t>(rank))),
          false);
    }
    add("ncclAllReduce all_reduce fp32 82 82 0,1,2,3 -1", true);
    add("ncclAllReduce all_reduce fp32 71 71 0,1,2,3 -1", true, 500);
    add("ncclAllReduce all_reduce fp32 72 72 0,1,2,3 -1", true, 500);
  }
};

Counts expected(int version) {
  Counts all;
  for (int rank = 0; rank < 4; ++rank) {
    Expected of_rank{version, rank};
    of_rank.add_world();
    of_rank.add_half();
    of_rank.add_rest();
    all.insert(of_rank.counts.begin(), of_rank.counts.end());
  }
  return all;
}

std::string differences(const Counts& wanted, const Counts& found) {
  std::string text;
  Counts all = wanted;
  all.insert(found.begin(), found.end());
  for (const auto& [call, ignored] : all) {
    const int in_wanted = wanted.contains(call) ? wanted.at(call) : 0;
    const int in_found = found.contains(call) ? found.at(call) : 0;
    if (in_wanted != in_found) {
      text += fmt::format("expected {} recorded {}: {}\n", in_wanted, in_found, call);
    }
  }
  return text;
}

class NcclPlugin : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclPlugin, testing::Values(1, 2, 3, 4, 5, 6));

TEST_P(NcclPlugin, RecordsEveryCallOfFourRanks) {
  const NcclJob job(command(GetParam(), "job"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  EXPECT_EQ(job.out, "");
  const Trace trace = job.read();
  EXPECT_EQ(differences(expected(GetParam()), counted(calls_of(trace))), "");
  for (const CommOp& op : trace.ops()) {
    const std::size_t members = trace.groups.members(op.group, Rank{0}).size();
    EXPECT_EQ(trace.groups.axis(op.group), members == 4 ? Axis::world : Axis::unknown) << members;
  }
  // Calls of the program that NCCL never enqueued are reported since v5.
  const std::map<std::string, std::int64_t> unfinished = {{"unfinished call", 8}};
  EXPECT_EQ(trace.provenance.skipped, GetParam() >= 5 ? unfinished : (std::map<std::string, std::int64_t>{}));
}

TEST_P(NcclPlugin, RecordsAlgorithmAndProtocolOfCollectives) {
  const NcclJob job(command(GetParam(), "job"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  std::set<std::string> chosen;
  const Trace trace = job.read();
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      const bool is_large = op.kind == CommKind::all_reduce && op.input == Elements{1000};
      if (is_large || is_point_to_point(op.kind)) {
        chosen.insert(fmt::format("{} {} {}", is_large ? "all_reduce" : "pair", name_of(op.algorithm),
                                  name_of(op.protocol)));
      }
    }
  }
  const std::string of_collectives = GetParam() == 1   ? "all_reduce ring simple"
                                     : GetParam() <= 3 ? "all_reduce ring ll"
                                                       : "all_reduce nvls_tree simple";
  EXPECT_EQ(chosen, (std::set<std::string>{of_collectives, "pair unknown unknown"}));
}

class NcclPluginSinceV4 : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclPluginSinceV4, testing::Values(4, 5, 6));

TEST_P(NcclPluginSinceV4, TakesHowLongACallRanFromTheClockOfTheGpu) {
  const NcclJob job(command(GetParam(), "job"));
  int seen = 0;
  for (const SeenCall& call : calls_of(job.read())) {
    const std::int64_t took = (call.times.finished - call.times.started).count();
    EXPECT_LE(call.times.issued, call.times.started) << call.text;
    if (call.text.find(" fp32 1000 ") != std::string::npos) {
      EXPECT_EQ(took, 7000) << call.text;
      ++seen;
    } else if (call.text.find(" fp32 21 ") != std::string::npos ||
               call.text.find(" fp32 22 ") != std::string::npos) {
      EXPECT_EQ(took, 3000) << call.text;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 12);
}

/// NCCL's proxies do not count messages of a rank to itself, the GPU does: seen with NCCL 2.28.9 on an H200.
TEST_P(NcclPluginSinceV4, BelievesNoKernelOfACommunicatorAfterAMessageToItself) {
  const NcclJob job(command(GetParam(), "itself"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const std::string enqueued = fmt::format(" | {}", k_enqueued);
  const Trace trace = job.read();
  EXPECT_EQ(differences({{"0 ncclAllReduce all_reduce fp32 101 101 0,1 -1", 1},
                         {"0 ncclSend send fp16 4 0 0,1 -1", 1},
                         {"0 ncclSend send fp16 5 0 0,0 -1" + enqueued, 1},
                         {"0 ncclRecv recv fp16 0 5 0,0 -1" + enqueued, 1},
                         {"0 ncclAllReduce all_reduce fp32 102 102 0,1 -1" + enqueued, 1},
                         {"0 ncclAllReduce all_reduce fp32 103 103 0,1 -1", 1}},
                        counted(calls_of(trace))),
            "");
  // Two channels of each of three calls.
  EXPECT_EQ(
      trace.provenance.skipped,
      (std::map<std::string, std::int64_t>{
          {"kernel event of a communicator after a message of a rank to itself, which NCCL misnumbers", 6}}));
}

TEST_P(NcclPlugin, GivesEachGpuOfAProcessARank) {
  const NcclJob job(command(GetParam(), "gpus"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  const std::string end = GetParam() < 3 ? " | enqueued only" : "";
  const Counts wanted = {{"0 ncclAllReduce all_reduce fp32 100 100 0,1,2 -1" + end, 1},
                         {"1 ncclAllReduce all_reduce fp32 101 101 0,1,2 -1" + end, 1},
                         {"2 ncclAllReduce all_reduce fp32 102 102 0,1,2 -1" + end, 1}};
  EXPECT_EQ(differences(wanted, counted(calls_of(job.read()))), "");
}

/// Events by bits of nccl_profiler.h: group 1, collective 2, message 4, kernel 64, the program's calls 512
/// and 1024, copy engines 4096.
TEST_P(NcclPlugin, AsksForNoKernelsAtTheLightLevel) {
  constexpr std::array<int, 7> light = {0, 7, 7, 7, 7, 7 + 512 + 1024, 7 + 512 + 1024 + 4096};
  const int expected = light.at(static_cast<std::size_t>(GetParam()));
  const NcclJob asked("COMMLENS_NCCL_PROFILER=light " + command(GetParam(), "mask"));
  EXPECT_EQ(asked.out, fmt::format("{}\n", expected));
  const NcclJob usual(command(GetParam(), "mask"));
  EXPECT_EQ(usual.out, fmt::format("{}\n", expected + (GetParam() >= 3 ? 64 : 0)));
}

TEST_P(NcclPlugin, GivesUpEventsThatAreLongPast) {
  const NcclJob job(command(GetParam(), "late"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)),
            (Counts{{"0 ncclAllReduce all_reduce fp32 61 61 0 -1 | enqueued only", 20001}}));
  const std::map<std::string, std::int64_t> late = {{"kernel event of a call that is not known any more", 1}};
  EXPECT_EQ(trace.provenance.skipped, GetParam() >= 3 ? late : (std::map<std::string, std::int64_t>{}));
}

TEST_P(NcclPlugin, LeavesWhatAKilledProcessHasCompleted) {
  const NcclJob job(command(GetParam(), "killed"));
  EXPECT_NE(job.exit_code, 0);
  const std::string end = GetParam() < 3 ? " | enqueued only" : "";
  // Before v4 the number of members is not reported: a rank that the job does not have represents the others.
  const std::string group = GetParam() < 4 ? "0,4195328" : "0";
  EXPECT_EQ(counted(calls_of(job.read())),
            (Counts{{fmt::format("0 ncclAllReduce all_reduce fp32 81 81 {} -1{}", group, end), 1}}));
}

TEST_P(NcclPlugin, ThreadsMayCallWhileAnotherOneAbortsTheirCommunicator) {
  const NcclJob job("GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0 " +
                    command(GetParam(), "aborts"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "18000\n");
  const Trace trace = job.read();
  std::int64_t calls = 0;
  for (const auto& [reason, count] : trace.provenance.skipped) {
    EXPECT_EQ(reason, "call of a communicator that is not recorded");
    calls += count;
  }
  EXPECT_EQ(calls + static_cast<std::int64_t>(trace.streams.at(0).events.size()), 18'000);
}

TEST_P(NcclPlugin, DoesNothingWhenNothingIsToBeRecorded) {
  const NcclJob job(command(GetParam(), "job"), false);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  EXPECT_FALSE(std::filesystem::exists(job.trace()));
}

TEST(NcclPluginDirectory, ASecondJobOfACommandHasADirectoryOfItsOwn) {
  const NcclJob job(command(6, "gpus") + " && " + command(5, "gpus"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.read().streams.size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(job.trace().string() + "-2/manifest.json"));
}

TEST(NcclRecord, SetsThePluginUpAndConcludesTheTrace) {
  const NcclJob job(
      fmt::format("{} record --nccl profiler -o trace -- {} 6 gpus", binary(), program("plugin_program")));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "");
  EXPECT_NE(job.err.find("3 calls of 3 ranks"), std::string::npos) << job.err;
  EXPECT_EQ(job.read().streams.size(), 3U);
}

TEST(NcclRecord, TakesCallsAsEnqueuedOnlyAtTheLightLevel) {
  const NcclJob job(fmt::format("{} record --nccl profiler=light -o trace -- {} 6 gpus", binary(),
                                program("plugin_program")));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)),
            (Counts{{"0 ncclAllReduce all_reduce fp32 100 100 0,1,2 -1 | enqueued only", 1},
                    {"1 ncclAllReduce all_reduce fp32 101 101 0,1,2 -1 | enqueued only", 1},
                    {"2 ncclAllReduce all_reduce fp32 102 102 0,1,2 -1 | enqueued only", 1}}));
  EXPECT_NE(trace.provenance.description.find("profiler=light: no times of the device"), std::string::npos)
      << trace.provenance.description;
}

TEST(NcclRecord, SetsTheShimUp) {
  const NcclJob job(
      fmt::format("{} record --nccl shim -o trace -- {} four", binary(), program("shim_program")));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.err.find("56 calls of 4 ranks"), std::string::npos) << job.err;
}

TEST(NcclRecord, KeepsTheLastCallsInARing) {
  const NcclJob job(
      fmt::format("{} record --nccl shim --ring 16 -o trace -- {} four", binary(), program("shim_program")));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  std::size_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    calls += stream.events.size();
  }
  EXPECT_EQ(calls,
            56U - 4U);  // of 17 records of each rank, three of them of calls that failed or were cancelled
  EXPECT_EQ(trace.provenance.skipped.at("call overwritten, ring full"), 4);
}

TEST(NcclRecord, SetsARingUpForThePlugin) {
  const NcclJob job(fmt::format("{} record --nccl profiler --ring 4 -o trace -- {} 6 gpus", binary(),
                                program("plugin_program")));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Manifest> manifest = read_manifest(job.trace() / "manifest.json");
  ASSERT_TRUE(manifest) << manifest.error().message;
  ASSERT_EQ(manifest->streams.size(), 3U);
  for (const StreamEntry& stream : manifest->streams) {
    EXPECT_EQ(stream.ring, 4);
    EXPECT_EQ(std::filesystem::file_size(job.trace() / stream.file), 274'560 + 32);  // cut after its one call
  }
}

TEST(NcclRecord, SaysWhenTheCommandUsedNoNccl) {
  const NcclJob job(fmt::format("{} record --nccl profiler -o trace -- sh -c 'exit 5'", binary()));
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_NE(
      job.err.find("nothing was recorded: no process of the command made a communicator with NCCL 2.23"),
      std::string::npos)
      << job.err;
}

TEST(NcclPluginDirectory, ADirectoryOfSomethingElseIsLeftAlone) {
  const NcclJob job("mkdir trace && echo mine > trace/thesis.txt && " + command(6, "gpus"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_NE(job.err.find("holds something other than a commlens trace"), std::string::npos) << job.err;
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(job.trace())) {
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST(NcclPluginDirectory, AFullDiskIsCountedAndTheJobGoesOn) {
  // A limit of 64 KiB a file: about 2,000 records.
  const NcclJob job("prlimit --fsize=65536 " + std::string("env ") + command(6, "late"));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  std::int64_t dropped = 0;
  for (const auto& [reason, calls] : trace.provenance.skipped) {
    dropped += reason.find("not recorded") != std::string::npos ? calls : 0;
  }
  EXPECT_EQ(dropped + static_cast<std::int64_t>(calls_of(trace).size()), 20001);
  EXPECT_GT(dropped, 0);
}

}  // namespace
}  // namespace commlens::test
