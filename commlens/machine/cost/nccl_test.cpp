#include "commlens/machine/cost/nccl.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machines.hpp"

// Expected numbers are worked out by hand from the formulas and constants of docs/time-model.md.

namespace commlens {
namespace {

constexpr std::int64_t k_mi = 1 << 20;

NcclSetting ampere(int minor) {
  return {nccl_tables(minor), {{12, 20, 20}, {}}, Architecture::ampere, CpuVendor::amd};
}

NcclSetting hopper(int minor, std::int64_t ranks) {
  const Channels nvls = ranks == 8 ? Channels{8, 50, 50} : Channels{4, 60, 60};
  return {nccl_tables(minor),
          {{12, 30, 30}, ranks > 2 ? std::optional(nvls) : std::nullopt},
          Architecture::hopper,
          CpuVendor::intel};
}

NcclSetting blackwell(int minor, std::int64_t ranks) {
  return {nccl_tables(minor),
          {{16, 45, 45}, ranks > 2 ? std::optional(Channels{ranks, 90, 90}) : std::nullopt},
          Architecture::blackwell,
          CpuVendor::intel};
}

/// Eight rings of 45 GB/s between nodes of eight, one head a GPU.
NcclSetting hopper_nodes(int minor) {
  return {nccl_tables(minor), {{8, 45, 45}, Channels{8, 45, 45}}, Architecture::hopper, CpuVendor::intel};
}

TimedCall nccl_call(CommKind op, std::int64_t bytes, std::int64_t ranks, std::int64_t nodes = 1,
                    DType dtype = DType::fp16) {
  return {op, Bytes{bytes}, dtype, {ranks, nodes}};
}

Candidate fastest_of(const NcclSetting& setting, const TimedCall& call) {
  const std::vector<Candidate> all = nccl_candidates(setting, call);
  return *std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.library_us < b.library_us;
  });
}

std::string pair_text(const Candidate& candidate) { return candidate.algorithm + "/" + candidate.protocol; }

double estimate_of(const std::string& pair, const NcclSetting& setting, const TimedCall& call) {
  for (const Candidate& candidate : nccl_candidates(setting, call)) {
    if (pair_text(candidate) == pair) {
      return candidate.library_us;
    }
  }
  return -1;
}

/// Sizes at which the choice changes, doubling from 512 B to 512 MiB: "512 ring/LL, 1048576 ring/Simple".
std::string switches_of(const NcclSetting& setting, CommKind op, std::int64_t ranks) {
  std::string text;
  std::string last;
  for (std::int64_t bytes = 512; bytes <= 512 * k_mi; bytes *= 2) {
    const std::string pair = pair_text(fastest_of(setting, nccl_call(op, bytes, ranks)));
    if (pair != last) {
      text += (text.empty() ? "" : ", ") + (bytes < k_mi ? "" : std::to_string(bytes / k_mi) + " Mi ") + pair;
      last = pair;
    }
  }
  return text;
}

TEST(NcclEstimate, OfTwoAmpereGpusIsRingUnderLlThenSimple) {
  const Candidate small = fastest_of(ampere(27), nccl_call(CommKind::all_reduce, 524'288, 2));
  EXPECT_EQ(pair_text(small), "ring/LL");
  EXPECT_NEAR(small.library_us, 13.7782, 1e-4);
  const Candidate large = fastest_of(ampere(27), nccl_call(CommKind::all_reduce, k_mi, 2));
  EXPECT_EQ(pair_text(large), "ring/Simple");
  EXPECT_NEAR(large.library_us, 19.5691, 1e-4);
}

TEST(NcclEstimate, OfAGatherOfEightAmpereGpus) {
  const Candidate gather = fastest_of(ampere(27), nccl_call(CommKind::all_gather, 16 * k_mi, 8));
  EXPECT_EQ(pair_text(gather), "ring/Simple");
  EXPECT_NEAR(gather.library_us, 93.3669, 1e-4);
}

TEST(NcclEstimate, OfEightHopperGpusEndsWithTheSwitch) {
  const Candidate small = fastest_of(hopper(29, 8), nccl_call(CommKind::all_reduce, k_mi, 8));
  EXPECT_EQ(pair_text(small), "ring/LL");
  EXPECT_NEAR(small.library_us, 28.0142, 1e-4);
  const Candidate large = fastest_of(hopper(29, 8), nccl_call(CommKind::all_reduce, 512 * k_mi, 8));
  EXPECT_EQ(pair_text(large), "nvls/Simple");
  EXPECT_NEAR(large.library_us, 2373.8102, 1e-4);
}

TEST(NcclEstimate, OfFourBlackwellGpus) {
  const Candidate small = fastest_of(blackwell(29, 4), nccl_call(CommKind::all_reduce, 4 * k_mi, 4));
  EXPECT_EQ(pair_text(small), "ring/LL");
  EXPECT_NEAR(small.library_us, 32.5101, 1e-4);
  const Candidate large = fastest_of(blackwell(29, 4), nccl_call(CommKind::all_reduce, 8 * k_mi, 4));
  EXPECT_EQ(pair_text(large), "ring/Simple");
  EXPECT_NEAR(large.library_us, 46.2763, 1e-4);
}

TEST(NcclEstimate, OfAReduceScatterOfEightHopperGpusTakesLl128) {
  const Candidate scatter = fastest_of(hopper(29, 8), nccl_call(CommKind::reduce_scatter, 8 * k_mi, 8));
  EXPECT_EQ(pair_text(scatter), "ring/LL128");
  EXPECT_NEAR(scatter.library_us, 49.4619, 1e-4);
}

TEST(NcclEstimate, SwitchesAllReducesWhereNcclDoes) {
  const CommKind op = CommKind::all_reduce;
  EXPECT_EQ(switches_of(ampere(27), op, 2), "ring/LL, 1 Mi ring/Simple");
  EXPECT_EQ(switches_of(ampere(27), op, 4), "ring/LL, 2 Mi ring/LL128, 8 Mi ring/Simple");
  EXPECT_EQ(switches_of(ampere(27), op, 8), "ring/LL, 4 Mi ring/LL128, 32 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 2), op, 2), "ring/LL, 2 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 4), op, 4), "ring/LL, 4 Mi ring/LL128, 16 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 8), op, 8), "ring/LL, 2 Mi nvls/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 2), op, 2), "ring/LL, 4 Mi ring/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 4), op, 4), "ring/LL, 8 Mi ring/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 8), op, 8), "ring/LL, 4 Mi nvls/Simple");
}

TEST(NcclEstimate, SwitchesGathersWhereNcclDoes) {
  const CommKind op = CommKind::all_gather;
  EXPECT_EQ(switches_of(ampere(27), op, 2), "ring/LL, 2 Mi ring/Simple");
  EXPECT_EQ(switches_of(ampere(27), op, 4), "ring/LL, 2 Mi ring/Simple");
  EXPECT_EQ(switches_of(ampere(27), op, 8), "ring/LL, 4 Mi ring/LL128, 16 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 2), op, 2), "ring/LL, 4 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 4), op, 4), "ring/LL, 4 Mi ring/Simple");
  EXPECT_EQ(switches_of(hopper(29, 8), op, 8), "ring/LL, 8 Mi ring/LL128, 32 Mi ring/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 2), op, 2), "ring/LL, 8 Mi ring/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 4), op, 4), "ring/LL, 8 Mi ring/Simple");
  EXPECT_EQ(switches_of(blackwell(29, 8), op, 8), "ring/LL, 16 Mi ring/Simple");
}

TEST(NcclEstimate, NeverAddsBytesInTheSwitch) {
  for (std::int64_t bytes = 512; bytes <= 512 * k_mi; bytes *= 2) {
    for (const DType type : {DType::int8, DType::fp8}) {
      for (const Candidate& candidate :
           nccl_candidates(hopper(29, 8), nccl_call(CommKind::all_reduce, bytes, 8, 1, type))) {
        EXPECT_NE(candidate.algorithm, "nvls") << bytes;
      }
    }
  }
}

TEST(NcclEstimate, OfTwoNodes) {
  const TimedCall call = nccl_call(CommKind::all_reduce, 1024 * k_mi, 16, 2);
  EXPECT_NEAR(estimate_of("nvls_tree/Simple", hopper_nodes(30), call), 4428.29, .01);
  EXPECT_NEAR(estimate_of("ring/Simple", hopper_nodes(30), call), 5776.6, .05);
  EXPECT_NEAR(estimate_of("tree/Simple", hopper_nodes(30), call), 6576.3, .05);
  EXPECT_EQ(pair_text(fastest_of(hopper_nodes(30), call)), "nvls_tree/Simple");
}

TEST(NcclEstimate, OfSixteenNodes) {
  const TimedCall call = nccl_call(CommKind::all_reduce, 16 * k_mi, 128, 16);
  EXPECT_NEAR(estimate_of("tree/LL128", hopper_nodes(30), call), 260.2, .05);
  EXPECT_NEAR(estimate_of("nvls_tree/Simple", hopper_nodes(30), call), 284.7, .05);
  EXPECT_NEAR(estimate_of("ring/LL128", hopper_nodes(30), call), 673.0, .05);
}

TEST(NcclEstimate, OfHundredTwentyEightNodes) {
  const TimedCall call = nccl_call(CommKind::all_reduce, 1024 * k_mi, 1024, 128);
  EXPECT_NEAR(estimate_of("nvls_tree/Simple", hopper_nodes(30), call), 6277.01, .01);
  EXPECT_NEAR(estimate_of("tree/Simple", hopper_nodes(30), call), 7716.9, .05);
  EXPECT_NEAR(estimate_of("ring/Simple", hopper_nodes(30), call), 19'479.5, .05);
}

TEST(NcclEstimate, OfOneGpuANodeTakesPat) {
  NcclSetting setting = hopper_nodes(30);
  setting.graph.nvls.reset();
  const TimedCall call = nccl_call(CommKind::all_gather, k_mi, 64, 64);
  EXPECT_NEAR(estimate_of("pat/Simple", setting, call), 215.1, .05);
  EXPECT_NEAR(estimate_of("ring/LL", setting, call), 372.2, .05);
  EXPECT_NEAR(estimate_of("ring/LL128", setting, call), 553.0, .05);
  EXPECT_NEAR(estimate_of("ring/Simple", setting, call), 893.3, .05);
}

TEST(NcclEstimate, OfOneRankIsNothing) {
  EXPECT_EQ(fastest_of(ampere(27), nccl_call(CommKind::all_reduce, k_mi, 1)).library_us, 0);
}

// 2.18: nvls base 23, 5/6 of the channels: 23 + 2^29 / (8 * 50 * 5/6 * 1000).
TEST(NcclEstimate, OfOldReleasesHasTheirConstants) {
  const TimedCall call = nccl_call(CommKind::all_reduce, 512 * k_mi, 8);
  EXPECT_NEAR(estimate_of("nvls/Simple", hopper(18, 8), call), 23 + 536'870'912 / 333'333.333, 1e-2);
  EXPECT_NEAR(estimate_of("nvls/Simple", hopper(21, 8), call), 25 + 536'870'912 / 333'333.333, 1e-2);
  // LL before 2.21: a quarter of the ring's 360 GB/s, at most Hopper's 87.7: 6.6 + 14 * .6 + 1 Mi / (87.7 *
  // 8/14).
  EXPECT_NEAR(estimate_of("ring/LL", hopper(18, 8), nccl_call(CommKind::all_reduce, k_mi, 8)),
              15.0 + 1'048'576 / (87'700 * 8.0 / 14), 1e-4);
  // PAT comes with 2.23.
  NcclSetting old = hopper_nodes(22);
  EXPECT_EQ(estimate_of("pat/Simple", old, nccl_call(CommKind::all_gather, k_mi, 64, 64)), -1);
}

/// The machines' own graphs are those that the tests above state.
TEST(CommGraphOf, KnownMachinesIsWhatSweepsShow) {
  const auto ring_of = [](const char* name, std::int64_t ranks) {
    return comm_graph(*find_machine(name), {ranks, 1})->ring;
  };
  EXPECT_EQ(ring_of("dgx_a100", 8).count, 12);
  EXPECT_EQ(ring_of("dgx_a100", 8).intra, 20);
  EXPECT_EQ(ring_of("dgx_h100", 8).count, 12);
  EXPECT_EQ(ring_of("dgx_h100", 8).intra, 30);
  EXPECT_EQ(ring_of("hgx_b200", 8).count, 16);
  EXPECT_EQ(ring_of("hgx_b200", 8).intra, 45);
  EXPECT_EQ(comm_graph(*find_machine("dgx_h100"), {8, 1})->nvls->intra, 50);
  EXPECT_EQ(comm_graph(*find_machine("dgx_h100"), {4, 1})->nvls->intra, 60);
  EXPECT_FALSE(comm_graph(*find_machine("dgx_h100"), {2, 1})->nvls.has_value());
  EXPECT_EQ(comm_graph(*find_machine("hgx_b200"), {8, 1})->nvls->intra, 90);
  EXPECT_FALSE(comm_graph(*find_machine("dgx_a100"), {8, 1})->nvls.has_value());
  EXPECT_EQ(comm_graph(*find_machine("marenostrum5"), {16, 4})->ring.inter, 24);
}

TEST(LibraryText, NamesReleasesThatAreKnown) {
  EXPECT_EQ(*nccl_minor("2.27.3"), 27);
  EXPECT_TRUE(library_from("nccl:2.18.3-1"));
  EXPECT_EQ(library_from("nccl:2.31").error().message,
            "NCCL '2.31' has no table here; known are 2.18 to 2.30");
  EXPECT_EQ(library_from("gloo").error().message, "library 'gloo' is not known; choose nccl, rccl or mpi");
}

TEST(LibraryRestrictions, AreThoseOfTheEnvironmentVariables) {
  const Machine machine = *find_machine("dgx_h100");
  Library library;
  library.version = "2.29.2";
  const TimedCall call = nccl_call(CommKind::all_reduce, 64 * k_mi, 8);
  EXPECT_EQ(chosen_pair(machine, library, call)->algorithm, "nvls");
  library.algorithms = {"ring"};
  EXPECT_EQ(chosen_pair(machine, library, call)->algorithm, "ring");
  library.protocols = {"ll"};
  EXPECT_EQ(chosen_pair(machine, library, call)->protocol, "LL");
  library = {"nccl", "2.29.2", {"pat"}, {}};  // which no all_reduce has: NCCL chooses among all
  EXPECT_EQ(chosen_pair(machine, library, call)->algorithm, "nvls");
}

}  // namespace
}  // namespace commlens
