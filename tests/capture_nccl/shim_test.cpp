// The shim before NCCL, in programs that use a stand-in for NCCL (shim_calls.c).
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "nccl_job.hpp"

namespace commlens::test {
namespace {

using Skipped = std::map<std::string, std::int64_t>;

std::string preloaded(const std::string& command) {
  return fmt::format("LD_PRELOAD={} {}", library("commlens-nccl"), command);
}

/// The calls of the four ranks of shim_calls.c, by hand. `end`: the tag of calls whose end is not known.
Counts expected_of_four(const std::string& end) {
  constexpr std::array<const char*, 4> halves = {"2,0", "3,1", "2,0", "3,1"};
  Counts counts;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string half = halves.at(static_cast<std::size_t>(rank));
    const std::array<std::string, 13> calls = {
        "ncclAllReduce all_reduce fp32 1000 1000 0,1,2,3 -1",
        "ncclAllGather all_gather fp32 16 64 0,1,2,3 -1",
        "ncclReduceScatter reduce_scatter bf16 32 8 0,1,2,3 -1",
        "ncclBroadcast broadcast fp64 3 3 0,1,2,3 3",
        "ncclBroadcast broadcast fp16 4 4 0,1,2,3 2",
        "ncclReduce reduce int32 5 5 0,1,2,3 1",
        "ncclAlltoAll all_to_all fp8 24 24 0,1,2,3 -1",
        "ncclAlltoAll all_to_all uint8 10 26 0,1,2,3 -1",
        fmt::format("ncclScatter other int8 {} 7 0,1,2,3 -1", rank == 0 ? 28 : 0),
        fmt::format("ncclAllGather all_gather fp32 11 22 {} -1", half),
        fmt::format("ncclSend send int64 21 0 {},{} -1", rank, (rank + 1) % 4),
        fmt::format("ncclRecv recv int64 0 21 {},{} -1", (rank + 3) % 4, rank),
        fmt::format("ncclAllReduce all_reduce fp32 22 22 {} -1", half)};
    for (const std::string& call : calls) {
      counts[fmt::format("{} {}{}", rank, call, end)] = 1;
    }
    counts[fmt::format("{} ncclAllReduce all_reduce fp32 41 41 0,1,2,3 -1 | enqueued only", rank)] = 1;
  }
  return counts;
}

class NcclShim : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, NcclShim, testing::Values("shim_program", "shim_loader"));

TEST_P(NcclShim, RecordsEveryCallOfFourRanks) {
  const NcclJob job(preloaded(program(GetParam()) + " four"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)), expected_of_four(" | enqueued only"));
  // Of each rank: the wrong call and that of an aborted communicator; the group that was only simulated.
  EXPECT_EQ(trace.provenance.skipped,
            (std::map<std::string, std::int64_t>{{"cancelled call", 4}, {"failed call", 8}}));
}

// ncclRedOp_t of nccl.h: 0 sum, 3 min, 4 average; 5 is the first that a program makes.
TEST_P(NcclShim, RecordsTheReductionOfEachCall) {
  const NcclJob job(preloaded(program(GetParam()) + " four"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  std::map<std::string, Reduction> reductions;
  for (const CommOp& op : trace.ops()) {
    reductions[fmt::format("{} {}", name_of(op.kind), op.output.value)] = op.reduction;
  }
  EXPECT_EQ(reductions.at("all_reduce 1000"), Reduction::sum);
  EXPECT_EQ(reductions.at("all_reduce 22"), Reduction::premul_sum);
  EXPECT_EQ(reductions.at("reduce_scatter 8"), Reduction::avg);
  EXPECT_EQ(reductions.at("reduce 5"), Reduction::min);
  EXPECT_EQ(reductions.at("all_gather 64"), Reduction::unknown);
  EXPECT_EQ(reductions.at("broadcast 3"), Reduction::unknown);
}

// shim_calls.c is part of the one program and a library of the other.
TEST_P(NcclShim, RecordsCallSitesOnDemand) {
  const NcclJob job("COMMLENS_CALL_SITES=1 " + preloaded(program(GetParam()) + " four"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Trace trace = job.read();
  const bool is_program = std::string_view(GetParam()) == "shim_program";
  for (const CommOp& op : trace.ops()) {
    const std::string& site = trace.names.text(op.site);
    EXPECT_NE(site.find(is_program ? "/shim_program+0x" : "shim_calls.so+0x"), std::string::npos) << site;
  }
  EXPECT_FALSE(trace.ops().empty());
}

TEST_P(NcclShim, DistinguishesCommunicators) {
  EXPECT_EQ(communicators_of(NcclJob(preloaded(program(GetParam()) + " four")).read()),
            (Counts{{"0,1,2,3", 1}, {"2,0", 1}, {"3,1", 1}}));
}

TEST(NcclShimOnAGpu, MeasuresHowLongTheGpuWorked) {
  const NcclJob job(preloaded(program("shim_program_cuda") + " four"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  const std::vector<SeenCall> calls = calls_of(job.read());
  EXPECT_EQ(counted(calls), expected_of_four(""));
  int measured = 0;
  for (const SeenCall& call : calls) {
    EXPECT_LE(call.times.issued, call.times.started) << call.text;
    if (call.note.empty()) {  // all but those that a graph captured
      EXPECT_EQ((call.times.finished - call.times.started).count(), 250'000) << call.text;
      ++measured;
    }
  }
  EXPECT_EQ(measured, 4 * 13);
}

TEST(NcclShimOnAGpu, CallsOfAStreamRunOneAfterTheOther) {
  const NcclJob job(preloaded(program("shim_program_cuda") + " four"));
  const Trace trace = job.read();
  for (const RankStream& stream : trace.streams) {
    for (std::size_t row = 1; row < 9; ++row) {  // in shim_calls.c's order, all on stream `one`
      EXPECT_GE(stream.times.at(row).started + std::chrono::microseconds(1),
                stream.times.at(row - 1).finished)
          << "row " << row;
    }
  }
}

TEST(NcclShimProcess, KnowsCommunicatorsThatAGroupMakes) {
  const NcclJob job(preloaded(program("shim_program") + " group"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(counted(calls_of(job.read())),
            (Counts{{"0 ncclAllReduce all_reduce fp32 61 61 0,1 -1 | enqueued only", 1},
                    {"1 ncclAllReduce all_reduce fp32 61 61 0,1 -1 | enqueued only", 1}}));
}

TEST(NcclShimProcess, KnowsTheRanksOfACommunicatorByTheirDevices) {
  const NcclJob job(preloaded(program("shim_program") + " devices"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(counted(calls_of(job.read())),
            (Counts{{"0 ncclAllReduce all_reduce fp32 70 70 0,1,2 -1 | enqueued only", 1},
                    {"1 ncclAllReduce all_reduce fp32 71 71 0,1,2 -1 | enqueued only", 1},
                    {"2 ncclAllReduce all_reduce fp32 72 72 0,1,2 -1 | enqueued only", 1},
                    {"2 ncclAllReduce all_reduce fp32 80 80 2,0 -1 | enqueued only", 1},
                    {"0 ncclAllReduce all_reduce fp32 81 81 2,0 -1 | enqueued only", 1}}));
}

/// glibc overwrites what is freed, so that a program that still uses it does not get far.
constexpr const char* k_freed_is_gone =
    "GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0 ";

TEST(NcclShimProcess, ThreadsMayCallWhileAnotherOneAbortsTheirCommunicator) {
  const NcclJob job(k_freed_is_gone + preloaded(program("shim_program") + " aborts"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  long good = 0;
  long bad = 0;
  ASSERT_EQ(std::sscanf(job.out.c_str(), "%ld good %ld bad", &good, &bad), 2) << job.out;
  EXPECT_EQ(good + bad, 6 * 3000);
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)),
            (Counts{{"0 ncclAllReduce all_reduce fp32 7 7 0 -1 | enqueued only", static_cast<int>(good)}}));
  EXPECT_EQ(trace.provenance.skipped, bad == 0 ? (Skipped{}) : (Skipped{{"failed call", bad}}));
}

TEST(NcclShimProcess, AForkedChildThatEndsAsUsualLeavesTheRecordingAlone) {
  const NcclJob job(preloaded(program("shim_program") + " forks"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)),
            (Counts{{"0 ncclAllReduce all_reduce fp32 11 11 0 -1 | enqueued only", 1},
                    {"0 ncclAllReduce all_reduce fp32 14 14 0 -1 | enqueued only", 1}}));
  EXPECT_EQ(trace.provenance.skipped, Skipped{});
  EXPECT_FALSE(std::filesystem::exists(job.trace().string() + "-2"));
}

/// The child has no thread that looks at the GPU, and touches nothing of its parent's.
TEST(NcclShimProcess, AForkedChildLeavesTheCallsUnderWayAlone) {
  const NcclJob job(preloaded(program("shim_program_cuda") + " forks"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  EXPECT_EQ(counted(calls_of(job.read())), (Counts{{"0 ncclAllReduce all_reduce fp32 11 11 0 -1", 1},
                                                   {"0 ncclAllReduce all_reduce fp32 14 14 0 -1", 1}}));
}

TEST(NcclShimProcess, CallsWithoutMemoryAreCountedAndReported) {
  const NcclJob job(preloaded(program("shim_program") + " no-memory"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "commlens: 6 calls were not recorded (commlens summary says why)\n");
  const Trace trace = job.read();
  EXPECT_EQ(counted(calls_of(trace)),
            (Counts{{"0 ncclAllReduce all_reduce fp32 21 21 0 -1 | enqueued only", 2}}));
  EXPECT_EQ(trace.provenance.skipped, (Skipped{{"call not recorded, memory was out", 6}}));
}

/// Two ranks whose launcher starts the second one first, over a trace of before; the first ends first.
TEST(NcclRecord, RanksOfAJobThatStartAndEndApartMakeOneTrace) {
  const auto rank = [](int number, const std::string& pipes) {
    return fmt::format("RANK={} WORLD_SIZE=2 {} record --nccl shim -o trace -- {} pair {}", number, binary(),
                       program("shim_program"), pipes);
  };
  const NcclJob job(
      fmt::format("{} record --nccl shim -o trace -- {} four 2>/dev/null; mkfifo ready go; ( {} ) 2>late & "
                  "read nothing <ready; {}; : >go; wait; cat late >&2",
                  binary(), program("shim_program"), rank(1, "ready go"), rank(0, "")));
  EXPECT_NE(job.err.find("some ranks had not ended yet"), std::string::npos) << job.err;
  EXPECT_FALSE(std::filesystem::exists(job.trace().string() + "-2"));
  EXPECT_EQ(counted(calls_of(job.read())),
            (Counts{{"0 ncclAllReduce all_reduce fp32 31 31 0,1 -1 | enqueued only", 1},
                    {"1 ncclAllReduce all_reduce fp32 31 31 0,1 -1 | enqueued only", 1},
                    {"1 ncclAllReduce all_reduce fp32 32 32 0,1 -1 | enqueued only", 1}}));
}

TEST(NcclRecord, ReportsTheMeasuredCost) {
  const NcclJob job(
      fmt::format("{} record --nccl shim -o trace -- {} four", binary(), program("shim_program")));
  EXPECT_NE(job.err.find("measured at every call"), std::string::npos) << job.err;
  EXPECT_EQ(job.err.find("blocking call"), std::string::npos) << job.err;
}

TEST(NcclShimProcess, LeavesProgramsAloneThatAreNotRecordedOrHaveNoNccl) {
  const NcclJob without(preloaded(program("shim_program_cuda") + " four"), false);
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_FALSE(std::filesystem::exists(without.trace()));
  const NcclJob other(preloaded("sh -c 'echo hello; exit 7'"));
  EXPECT_EQ(other.exit_code, 7);
  EXPECT_EQ(other.out, "hello\n");
  EXPECT_EQ(other.err, "");
  EXPECT_FALSE(std::filesystem::exists(other.trace()));
}

}  // namespace
}  // namespace commlens::test
