#include "commlens/tune/rules.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "commlens/tune/test_support.hpp"

namespace commlens::tune {
namespace {

using test::MpichCall;
using test::NcclPlugin;
using test::OpenMpiFile;

const RuleOrigin k_origin{.machine = "a host\nwith two lines",
                          .versions = std::string(400, 'v'),
                          .date = "2026-01-02",
                          .seed = 7,
                          .messages = "19M"};
constexpr std::int64_t k_kib = 1024;

Rule rule(CommKind kind, std::int64_t ranks, std::int64_t bytes, const std::string& algorithm) {
  return {.kind = kind, .ranks = ranks, .message = Bytes{bytes}, .algorithm = algorithm};
}

TEST(OpenMpiRules, HoldForTheirSizeOnTheirRanksAlone) {
  const OpenMpiFile file(*open_mpi_rules({rule(CommKind::all_reduce, 4, 64 * k_kib, "ring"),
                                          rule(CommKind::all_reduce, 4, 64 * k_kib + 1, "rabenseifner"),
                                          rule(CommKind::all_reduce, 8, 64 * k_kib, "recursive_doubling")},
                                         k_origin));
  ASSERT_TRUE(file.is_whole());
  constexpr std::int64_t k_allreduce = 2;
  const auto at = [&](std::int64_t ranks, std::int64_t bytes) {
    return file.of(k_allreduce, ranks, bytes).first;
  };
  EXPECT_EQ(at(4, 65'536), 4);  // ring
  EXPECT_EQ(at(4, 65'537), 6);
  EXPECT_EQ(at(8, 65'536), 3);
  for (const std::int64_t bytes : {0, 65'535, 65'538, 1 << 30}) {
    EXPECT_EQ(at(4, bytes), 0) << bytes;
  }
  for (const std::int64_t ranks : {1, 2, 3, 5, 6, 7, 9, 1000}) {
    EXPECT_EQ(at(ranks, 65'536), 0) << ranks;
  }
  EXPECT_EQ(file.of(0, 4, 65'536).first, 0);  // all_gather has no rules
}

TEST(OpenMpiRules, KnowTheNumberOfEachAlgorithm) {
  struct Known {
    CommKind kind;
    std::int64_t collective;
    std::string algorithm;
    std::int64_t number;
    std::int64_t fan;
  };
  // coll_base_functions.h and coll_tuned_*_decision.c of 4.1.4.
  for (const Known& known :
       {Known{CommKind::all_gather, 0, "neighbor", 5, 0},
        Known{CommKind::all_reduce, 2, "rabenseifner", 6, 0},
        Known{CommKind::all_to_all, 3, "modified_bruck", 3, 0}, Known{CommKind::barrier, 6, "tree", 6, 0},
        Known{CommKind::broadcast, 7, "chain", 2, 4},
        Known{CommKind::broadcast, 7, "scatter_allgather_ring", 9, 0},
        Known{CommKind::reduce, 11, "rabenseifner", 7, 0},
        Known{CommKind::reduce_scatter, 12, "butterfly", 4, 0}}) {
    const OpenMpiFile file(*open_mpi_rules({rule(known.kind, 4, 0, known.algorithm)}, k_origin));
    EXPECT_EQ(file.of(known.collective, 4, 0), std::pair(known.number, known.fan)) << known.algorithm;
    EXPECT_EQ(file.of(known.collective, 4, 1).first, 0) << known.algorithm;
  }
}

TEST(OpenMpiRules, WithoutRulesAreAFileOfNoCollectives) {
  const OpenMpiFile file(*open_mpi_rules({}, k_origin));
  EXPECT_TRUE(file.is_whole());
  EXPECT_EQ(file.of(2, 4, 100).first, 0);
}

TEST(OpenMpiRules, RefuseWhatWouldEndTheJob) {
  EXPECT_EQ(
      open_mpi_rules({rule(CommKind::all_reduce, 4, 100, "magic")}, k_origin).error().message,
      "all_reduce of 100 bytes over 4 ranks: Open MPI has no algorithm magic of it; an unknown one would "
      "end the job");
  EXPECT_EQ(open_mpi_rules({rule(CommKind::send, 2, 100, "ring")}, k_origin).error().message,
            "Open MPI has no rules for send");
}

TEST(NcclRules, GiveTheTableBackForEverySizeAndOneByteBesideIt) {
  const std::vector<Rule> rules{rule(CommKind::all_reduce, 8, 1 << 20, "tree/ll128"),
                                rule(CommKind::all_reduce, 8, (1 << 20) + 1, "ring/simple"),
                                rule(CommKind::all_reduce, 4, 1 << 20, "ring/ll"),
                                rule(CommKind::all_gather, 8, 12'345, "pat/simple"),
                                rule(CommKind::reduce_scatter, 8, 12'345, "nvls/simple"),
                                rule(CommKind::broadcast, 8, 5'000'000'000, "ring/simple"),
                                rule(CommKind::reduce, 8, 1, "tree/ll")};
  const NcclPlugin plugin(*nccl_tuner_rules(rules, k_origin));
  const auto name = [](CommKind kind) {
    std::string text(name_of(kind));
    std::erase(text, '_');
    return text;
  };
  for (const Rule& one : rules) {
    for (const std::int64_t beside : {-1, 0, 1}) {
      const std::int64_t bytes = one.message.value + beside;
      const auto expected = std::find_if(rules.begin(), rules.end(), [&](const Rule& other) {
        return other.kind == one.kind && other.ranks == one.ranks && other.message.value == bytes;
      });
      EXPECT_EQ(plugin.of(name(one.kind), static_cast<std::uint64_t>(bytes), 1, static_cast<int>(one.ranks)),
                expected == rules.end() ? "" : expected->algorithm)
          << name(one.kind) << ' ' << bytes;
    }
  }
  EXPECT_EQ(plugin.of("allreduce", 1 << 20, 1, 16), "");
}

TEST(NcclRules, RefuseWhatThePluginWouldTakeForSomethingElse) {
  EXPECT_EQ(nccl_tuner_rules({rule(CommKind::all_to_all, 4, 100, "ring/simple")}, k_origin).error().message,
            "NCCL's tuner has no rules for all_to_all");
  EXPECT_EQ(nccl_tuner_rules({rule(CommKind::reduce, 4, 100, "Tree/simple")}, k_origin).error().message,
            "reduce of 100 bytes over 4 ranks: NCCL has no algorithm and protocol Tree/simple");
}

TEST(NcclAlgorithms, AreForOpsThatUseOneAlgorithmAlways) {
  const Rule small = rule(CommKind::all_reduce, 4, 100, "tree/ll");
  const Rule large = rule(CommKind::all_reduce, 4, 10'000, "tree/simple");
  const Rule other = rule(CommKind::broadcast, 4, 100, "ring/ll");
  EXPECT_EQ(nccl_algorithms({small, large, other}, {}), "allreduce:tree;broadcast:ring");
  EXPECT_EQ(nccl_algorithms({small, large, other}, {rule(CommKind::broadcast, 4, 7, "")}), "allreduce:tree");
  EXPECT_EQ(nccl_algorithms({small, rule(CommKind::all_reduce, 4, 7, "ring/ll")}, {}), "");
}

/// The tree with the rules, and the choice for a call.
std::string choice(const std::vector<Rule>& rules, const MpichCall& call) {
  return test::mpich_choice(nlohmann::ordered_json::parse(*mpich_rules(rules)), call);
}

// Worked out by hand from maint/tuning/coll/mpir/generic.json of MPICH 4.0.2.
TEST(MpichRules, AreItsDefaultsWithoutRules) {
  const std::vector<std::pair<MpichCall, std::string>> known{
      {{.collective = "bcast", .ranks = 4, .avg_bytes = 1 << 20}, "MPIR_Bcast_intra_binomial"},
      {{.collective = "bcast", .ranks = 8, .avg_bytes = 12'289},
       "MPIR_Bcast_intra_scatter_recursive_doubling_allgather"},
      {{.collective = "bcast", .ranks = 12, .avg_bytes = 12'289}, "MPIR_Bcast_intra_scatter_ring_allgather"},
      {{.collective = "allreduce", .ranks = 4, .count = 4, .avg_bytes = 16},
       "MPIR_Allreduce_intra_reduce_scatter_allgather"},
      {{.collective = "allreduce", .ranks = 4, .count = 3, .avg_bytes = 12},
       "MPIR_Allreduce_intra_recursive_doubling"},
      {{.collective = "allreduce", .ranks = 4, .count = 100, .avg_bytes = 200, .op_built_in = false},
       "MPIR_Allreduce_intra_recursive_doubling"},
      {{.collective = "allgather", .ranks = 6, .total_bytes = 81'919}, "MPIR_Allgather_intra_brucks"},
      {{.collective = "allgather", .ranks = 4, .total_bytes = 524'288}, "MPIR_Allgather_intra_ring"},
      {{.collective = "alltoall", .ranks = 8, .avg_bytes = 256}, "MPIR_Alltoall_intra_brucks"},
      {{.collective = "alltoall", .ranks = 7, .avg_bytes = 256}, "MPIR_Alltoall_intra_scattered"},
      {{.collective = "reduce_scatter_block", .ranks = 4, .total_bytes = 524'288},
       "MPIR_Reduce_scatter_block_intra_pairwise"},
      {{.collective = "iallreduce", .ranks = 4, .count = 1000, .avg_bytes = 4000},
       "MPIR_Iallreduce_intra_sched_reduce_scatter_allgather"},
      {{.collective = "ineighbor_alltoallw", .ranks = 4}, "MPIR_Ineighbor_alltoallw_allcomm_sched_linear"}};
  for (const auto& [call, algorithm] : known) {
    EXPECT_EQ(choice({}, call), algorithm) << call.collective << ' ' << call.ranks;
  }
}

TEST(MpichRules, HoldForTheirSizeOnTheirRanksAlone) {
  const std::vector<Rule> rules{rule(CommKind::all_gather, 4, 4096, "brucks"),
                                rule(CommKind::all_gather, 5, 4096, "ring")};
  const auto at = [&](std::int64_t ranks, std::int64_t bytes) {
    return choice(rules, {.collective = "allgather", .ranks = ranks, .total_bytes = bytes});
  };
  EXPECT_EQ(at(4, 4096), "MPIR_Allgather_intra_brucks");
  EXPECT_EQ(at(5, 4096), "MPIR_Allgather_intra_ring");
  EXPECT_EQ(at(4, 4095), "MPIR_Allgather_intra_recursive_doubling");
  EXPECT_EQ(at(4, 4097), "MPIR_Allgather_intra_recursive_doubling");
  EXPECT_EQ(at(8, 4096), "MPIR_Allgather_intra_recursive_doubling");
  EXPECT_EQ(at(3, 4096), "MPIR_Allgather_intra_brucks");  // the default of 3
}

TEST(MpichRules, LeaveCallsThatCannotUseTheAlgorithmAtTheDefault) {
  const std::vector<Rule> rules{rule(CommKind::all_reduce, 4, 8, "reduce_scatter_allgather"),
                                rule(CommKind::reduce_scatter, 4, 400, "pairwise"),
                                rule(CommKind::all_to_all, 4, 400, "brucks")};
  MpichCall sum{.collective = "allreduce", .ranks = 4, .count = 4, .avg_bytes = 8};
  EXPECT_EQ(choice(rules, sum), "MPIR_Allreduce_intra_reduce_scatter_allgather");
  sum.count = 2;  // fewer elements than ranks
  EXPECT_EQ(choice(rules, sum), "MPIR_Allreduce_intra_recursive_doubling");
  sum = {.collective = "allreduce", .ranks = 4, .count = 4, .avg_bytes = 8, .op_built_in = false};
  EXPECT_EQ(choice(rules, sum), "MPIR_Allreduce_intra_recursive_doubling");
  MpichCall scatter{.collective = "reduce_scatter_block", .ranks = 4, .total_bytes = 400};
  EXPECT_EQ(choice(rules, scatter), "MPIR_Reduce_scatter_block_intra_pairwise");
  scatter.commutative = false;
  EXPECT_EQ(choice(rules, scatter), "MPIR_Reduce_scatter_block_intra_noncommutative");
  MpichCall all{.collective = "alltoall", .ranks = 4, .avg_bytes = 100};  // a fourth of it for each rank
  EXPECT_EQ(choice(rules, all), "MPIR_Alltoall_intra_brucks");
  all.in_place = true;
  EXPECT_EQ(choice(rules, all), "MPIR_Alltoall_intra_pairwise_sendrecv_replace");
}

TEST(MpichRules, RefuseWhatTheFileCannotHold) {
  EXPECT_EQ(mpich_rules({rule(CommKind::broadcast, 4, INT32_MAX, "binomial")}).error().message,
            "broadcast of 2147483647 bytes over 4 ranks: MPICH's file has sizes from 1 to 2^31 - 2 bytes");
  EXPECT_EQ(
      mpich_rules({rule(CommKind::broadcast, 4, 100, "smp")}).error().message,
      "broadcast of 100 bytes over 4 ranks: MPICH has no algorithm smp of it; an unknown one would end the "
      "job");
}

TEST(MpichRules, AreForMpich40Alone) {
  EXPECT_TRUE(mpich_rules_fit("MPICH Version:\t4.0.2"));
  EXPECT_FALSE(mpich_rules_fit("MPICH Version:      4.2.1"));
  EXPECT_FALSE(mpich_rules_fit("Open MPI v4.0.2"));
}

}  // namespace
}  // namespace commlens::tune
