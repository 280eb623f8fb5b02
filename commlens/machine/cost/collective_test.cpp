#include "commlens/machine/cost/collective.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/machine/cost/comm_graph.hpp"
#include "commlens/machine/cost/form.hpp"
#include "commlens/machine/cost/nccl.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

constexpr CommKind k_timed[] = {CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                                CommKind::all_to_all};

CostQuery query_of(const Machine& machine, CommKind op, std::int64_t bytes, Placement place) {
  CostQuery query;
  query.machine = &machine;
  const bool is_amd = machine.processor.architecture == Architecture::cdna2 ||
                      machine.processor.architecture == Architecture::cdna3;
  query.library.name = is_amd ? "rccl" : "nccl";
  query.library.version = default_version(machine, query.library.name);
  query.call = {op, Bytes{bytes}, DType::fp16, place};
  return query;
}

/// Machines whose GPUs have no library here are refused.
bool has_no_library(const Machine& machine) { return machine.processor.architecture == Architecture::other; }

/// Under one algorithm and protocol, times never fall with size; no time is below what the links allow.
TEST(CollectiveTimes, NeverFallWithSizeAndStayWithinTheLinks) {
  for (const EmbeddedFile& built_in : built_in_machines()) {
    const Machine machine = *find_machine(std::string(built_in.stem()));
    for (const Calibration& calibration : machine.calibrations) {
      for (const PairFit& pair : calibration.pairs) {
        for (const std::int64_t ranks : {2, 3, 4, 6, 8}) {
          const Placement place{pair.several_nodes ? ranks * 4 : ranks, pair.several_nodes ? ranks : 1};
          double before = 0;
          for (std::int64_t bytes = 64; bytes < (std::int64_t{1} << 33); bytes += bytes / 3 + 1) {
            const TimedCall call{pair.op, Bytes{bytes}, DType::fp16, place};
            const double us = calibrated_us(pair, call);
            ASSERT_GE(us, before * (1 - 1e-12))
                << machine.name << " " << name_of(pair.op) << " " << pair.algorithm << "/" << pair.protocol
                << " " << ranks << " ranks " << bytes << " B";
            before = us;
          }
        }
      }
    }
    for (const CommKind op : k_timed) {
      for (std::int64_t bytes = 512; bytes < (std::int64_t{1} << 33); bytes *= 4) {
        const auto ranks = static_cast<std::int64_t>(machine.ranks_per_node.value);
        for (const std::int64_t nodes : {std::int64_t{1}, std::int64_t{4}}) {
          if (has_no_library(machine) || ranks * nodes < 2 || (nodes > 1 && machine.out.kind == "none")) {
            continue;
          }
          const CostQuery query = query_of(machine, op, bytes, {ranks * nodes, nodes});
          const Result<CollectiveTime> time = collective_time(query);
          ASSERT_TRUE(time) << time.error().message;
          EXPECT_GE(time->us, least_us(machine, query.call)) << machine.name;
          EXPECT_LE(time->low_us, time->us);
          EXPECT_GE(time->high_us, time->us);
          EXPECT_FALSE(time->source_of.empty());
        }
      }
    }
  }
}

/// GB/s of the link that a rank of a group has, or a node where each has one rank.
double link_of_group(const Machine& machine, const Placement& place) {
  return place.per_node() > 1 ? machine.up.bandwidth->value
                              : machine.out.nics->value * machine.out.bandwidth->value;
}

/// A group of so many ranks a node on so many nodes, under every algorithm that the library weighs.
void expect_within_link(const Machine& machine, CommKind op, const Placement& place) {
  for (std::int64_t bytes = 8; bytes < (std::int64_t{1} << 36); bytes *= 16) {
    const CostQuery query = query_of(machine, op, bytes, place);
    const Result<std::vector<TimedCandidate>> times = candidate_times(query);
    ASSERT_TRUE(times) << times.error().message;
    for (const TimedCandidate& each : *times) {
      const double bus = static_cast<double>(bytes) / each.time.us / 1e3 * bus_factor(op, place.ranks);
      EXPECT_LE(bus, link_of_group(machine, place) * (1 + 1e-9))
          << machine.name << " " << name_of(op) << " " << each.time.algorithm << "/" << each.time.protocol
          << " " << place.ranks << " ranks " << place.nodes << " nodes " << bytes << " B";
      if (each.time.source == TimeSource::uncalibrated) {
        EXPECT_GE(each.time.us, each.candidate.latency_us) << machine.name << " " << name_of(op);
      }
    }
  }
}

TEST(CollectiveTimes, HaveAtMostTheBandwidthOfALinkAlsoBeyondOneDomain) {
  for (const EmbeddedFile& built_in : built_in_machines()) {
    const Machine machine = *find_machine(std::string(built_in.stem()));
    const auto all = static_cast<std::int64_t>(machine.ranks_per_node.value);
    for (const CommKind op : {CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                              CommKind::all_to_all, CommKind::broadcast, CommKind::reduce, CommKind::send}) {
      for (const std::int64_t per_node : std::set<std::int64_t>{1, (all + 1) / 2, all}) {
        for (const std::int64_t nodes : {1, 2, 3, 16}) {
          const Placement place{per_node * nodes, nodes};
          const bool is_possible = !has_no_library(machine) && place.ranks > 1 &&
                                   (nodes == 1 || machine.out.kind != "none") &&
                                   (!is_point_to_point(op) || place.ranks == 2);
          if (is_possible) {
            expect_within_link(machine, op, place);
          }
        }
      }
    }
  }
}

// Two domains of 72 GB200: each ring passes every rank, whose links NCCL counts as 18 x 40.1 = 721.8 GB/s: 16
// rings of 45.1 GB/s (15 of 48 are 720).
TEST(CollectiveTimes, OfTwoDomainsHaveAsManyRingsAsLinksCarry) {
  const Machine machine = *find_machine("gb200_nvl72");
  EXPECT_EQ(comm_graph(machine, {144, 2})->ring.count, 16);
  EXPECT_EQ(comm_graph(machine, {144, 2})->ring.inter, 45.1);
  EXPECT_EQ(comm_graph(machine, {16, 2})->ring.count, 8);
}

/// Also where no pair was measured: the library's corrections by size have steps downwards, times have none.
TEST(CollectiveTimes, NeverFallUnderOnePairOfAnyMachine) {
  for (const EmbeddedFile& built_in : built_in_machines()) {
    const Machine machine = *find_machine(std::string(built_in.stem()));
    const auto ranks = static_cast<std::int64_t>(machine.ranks_per_node.value);
    for (const CommKind op : {CommKind::all_reduce, CommKind::reduce_scatter}) {
      for (const Placement& place : {Placement{ranks, 1}, Placement{2 * ranks, 2}}) {
        for (const char* const algorithm : {"ring", "tree", "nvls", "nvls_tree"}) {
          std::map<std::string, double> before;
          for (std::int64_t bytes = 96; bytes < (1 << 30) && nccl_has(algorithm, op, place) &&
                                        place.ranks > 1 && !has_no_library(machine);
               bytes += bytes / 2) {
            CostQuery query = query_of(machine, op, bytes, place);
            query.library.algorithms = {algorithm};
            const Result<std::vector<TimedCandidate>> times = candidate_times(query);
            ASSERT_TRUE(times) << times.error().message;
            for (const TimedCandidate& time : *times) {
              const std::string pair = time.candidate.algorithm + "/" + time.candidate.protocol;
              EXPECT_GE(time.time.us, before[pair] * (1 - 1e-12))
                  << machine.name << " " << pair << " " << bytes;
              before[pair] = time.time.us;
            }
          }
        }
      }
    }
  }
}

TEST(CollectiveTime, SaysWhereItComesFrom) {
  const auto source_of = [](const std::string& machine, std::int64_t bytes, Placement place) {
    const Machine known = *find_machine(machine);
    CostQuery query = query_of(known, CommKind::all_reduce, bytes, place);
    const Machine lender = known.borrows.empty() ? Machine{} : *find_machine(known.borrows);
    query.lender = known.borrows.empty() ? nullptr : &lender;
    return std::string(name_of(collective_time(query)->source));
  };
  EXPECT_EQ(source_of("dgx_h100", 1 << 20, {8, 1}), "measured");
  EXPECT_EQ(source_of("dgx_h100", 1'000'000, {8, 1}), "calibrated");
  EXPECT_EQ(source_of("dgx_h100", 1 << 20, {6, 1}), "calibrated");
  EXPECT_EQ(source_of("dgx_h100", 1 << 20, {16, 2}), "uncalibrated");
  EXPECT_EQ(source_of("hgx_h200", 1 << 20, {8, 1}), "borrowed");
  EXPECT_EQ(source_of("gb200_nvl72", 1 << 20, {72, 1}), "borrowed");
  EXPECT_EQ(source_of("frontier", 1 << 20, {8, 1}), "uncalibrated");
}

TEST(CollectiveTime, OfAnotherReleaseIsBorrowed) {
  const Machine machine = *find_machine("dgx_h100");
  CostQuery query = query_of(machine, CommKind::all_reduce, 1 << 20, {8, 1});
  query.library.version = "2.23.4";
  const Result<CollectiveTime> time = collective_time(query);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->source, TimeSource::borrowed);
  EXPECT_EQ(time->source_of, "nccl 2.29.2");
  EXPECT_GE(time->high_us / time->us, 1.25);
}

TEST(CollectiveTime, OfLayoutsLargerThanTheMachineIsRefused) {
  EXPECT_EQ(collective_time(query_of(*find_machine("dgx_h100"), CommKind::all_reduce, 1024, {16, 1}))
                .error()
                .message,
            "16 ranks on a node: dgx_h100 has 8");
  EXPECT_EQ(collective_time(query_of(*find_machine("vista_gh200"), CommKind::all_reduce, 1024, {700, 700}))
                .error()
                .message,
            "700 nodes: vista_gh200 has 600");
}

TEST(CollectiveTime, OfALibraryThatDoesNotRunThereIsRefused) {
  EXPECT_EQ(
      collective_time(query_of(*find_machine("aurora"), CommKind::all_reduce, 1024, {12, 1})).error().message,
      "nccl does not run on aurora (Intel Max 1550, one of two tiles); times of another library need a "
      "sweep, "
      "commlens calibrate");
  const Machine machine = *find_machine("dgx_h100");
  CostQuery query = query_of(machine, CommKind::all_reduce, 1024, {8, 1});
  query.library.name = "rccl";
  EXPECT_FALSE(collective_time(query));
}

TEST(CollectiveTime, OfMpiNeedsAMeasurement) {
  const Machine machine = *find_machine("frontier");
  CostQuery query = query_of(machine, CommKind::all_reduce, 1024, {16, 2});
  query.library.name = "mpi";
  EXPECT_EQ(
      collective_time(query).error().message,
      "machine frontier: no MPI time of all_reduce was measured between nodes; run commlens calibrate with a "
      "sweep");
}

TEST(CollectiveTime, OfOneRankIsNothing) {
  EXPECT_EQ(collective_time(query_of(*find_machine("dgx_h100"), CommKind::all_reduce, 1 << 20, {1, 1}))->us,
            0);
}

// 512 MiB over 8 of 300 GB/s: a ring sends 7/4 of it.
TEST(LeastTime, IsThatOfTheLinks) {
  const Machine machine = *find_machine("dgx_a100");
  const TimedCall call{CommKind::all_reduce, Bytes{1 << 29}, DType::fp16, {8, 1}};
  EXPECT_NEAR(least_us(machine, call), 536'870'912 * 1.75 / 300e3, 1e-6);
  // Two nodes: each of 16 ranks sends 15/8 of it.
  const TimedCall across{CommKind::all_reduce, Bytes{1 << 29}, DType::fp16, {16, 2}};
  EXPECT_NEAR(least_us(machine, across), 536'870'912 * 1.875 / 300e3, 1e-6);
  // Of two ranks on two nodes all crosses once each way.
  const TimedCall pair{CommKind::all_reduce, Bytes{1 << 29}, DType::fp16, {2, 2}};
  EXPECT_NEAR(least_us(machine, pair), 536'870'912 / 200e3, 1e-6);
}

// 512 MiB among 8 H100 by NVLS in 1,957.3 us are 480 GB/s over links of 450: what was measured stays, and
// larger sizes have no more.
TEST(LeastTime, GivesWayToWhatWasMeasured) {
  Machine machine = *find_machine("dgx_h100");
  for (PairFit& pair : machine.calibrations.front().pairs) {
    if (pair.algorithm == "nvls") {
      pair.knots = {{8, 1, {1 << 20, 1 << 24, 1 << 29}, {30, 110, 1957.3}}};
    }
  }
  const auto bus = [&](std::int64_t bytes) {
    CostQuery query = query_of(machine, CommKind::all_reduce, bytes, {8, 1});
    query.library.algorithms = {"nvls"};
    return static_cast<double>(bytes) * 1.75 / collective_time(query)->us / 1e3;
  };
  EXPECT_NEAR(bus(1 << 29), 480, .1);
  EXPECT_LE(bus(std::int64_t{1} << 33), 480.1);
}

TEST(CommGraph, OfGroupsWithPartOfANodeHasTheNicsOfTheirRanks) {
  const Machine h100 = *find_machine("dgx_h100");  // 8 ranks, 8 NICs
  EXPECT_EQ(nics_of(h100, {16, 16}), 1);
  EXPECT_EQ(nics_of(h100, {32, 8}), 4);
  EXPECT_EQ(nics_of(h100, {64, 8}), 8);
  EXPECT_EQ(comm_graph(h100, {16, 16})->ring.count, 1);
  const Machine frontier = *find_machine("frontier");  // 8 ranks, 4 NICs
  EXPECT_EQ(nics_of(frontier, {16, 16}), 1);
  EXPECT_EQ(nics_of(frontier, {64, 8}), 4);
}

TEST(CollectiveTime, OfGroupsWithOneRankANodeIsThatOfTheirNicAndSaysSo) {
  const Machine machine = *find_machine("marenostrum5");  // measured with 4 ranks and 4 NICs a node
  CostQuery query;
  query.machine = &machine;
  query.library = {"nccl", default_version(machine, "nccl")};
  query.call = {CommKind::all_reduce, Bytes{1 << 26}, DType::fp16, {16, 16}};
  const Result<CollectiveTime> alone = collective_time(query);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->source, TimeSource::borrowed);
  EXPECT_EQ(alone->source_of, "other numbers of ranks on a node");
  EXPECT_GT(alone->us, (1 << 26) * 2.0 * 15 / 16 / 25e3);  // one NIC of 25 GB/s
}

TEST(CollectiveTime, OfAMeasuredPointIsThatPointWhateverElseWasMeasured) {
  Machine machine = *find_machine("marenostrum5");
  Calibration& calibration = machine.calibrations.front();
  calibration = {};
  calibration.library = "nccl";
  PairFit fit;
  fit.op = CommKind::all_reduce;
  fit.algorithm = "ring";
  fit.protocol = "Simple";
  fit.several_nodes = true;
  fit.coefficients = {1000, 0, 0, 0, 0, 0};
  fit.knots = {{4, 4, {1 << 28, 1 << 30}, {30'000, 120'000}}, {16, 4, {1 << 28, 1 << 30}, {25'000, 100'000}}};
  calibration.pairs = {fit};
  machine.calibrations.resize(1);
  CostQuery query;
  query.machine = &machine;
  query.library = {"nccl", default_version(machine, "nccl"), {"ring"}, {"Simple"}};
  query.call = {CommKind::all_reduce, Bytes{1 << 30}, DType::fp16, {16, 4}};
  EXPECT_NEAR(collective_time(query)->us, 100'000, 1);
  query.call.place = {4, 4};
  EXPECT_NEAR(collective_time(query)->us, 120'000, 1);
}

}  // namespace
}  // namespace commlens
