#pragma once
#include <array>
#include <cstddef>

#include "commlens/machine/machine.hpp"

namespace commlens {

/// Protocols in the order of NCCL's tables: LL, LL128, Simple.
constexpr std::size_t k_ll = 0;
constexpr std::size_t k_ll128 = 1;
constexpr std::size_t k_simple = 2;
using ByProtocol = std::array<double, 3>;

/// One node, two nodes, more.
using BySpan = std::array<double, 3>;

/// Microseconds of one algorithm: before anything moves, and of one step over each kind of link.
struct NcclLatency {
  ByProtocol base{};
  ByProtocol nvlink{};
  ByProtocol pci{};
  ByProtocol net{};
};

/// Limits of one generation of GPUs, GB/s.
struct NcclCaps {
  BySpan ll{};          // of all channels together
  BySpan ring_ll128{};  // of one channel, as the others
  BySpan tree_ll128{};
  BySpan tree{};
  BySpan nvls_tree{};
  double nvls_efficiency = 0;
};

/// What NCCL's table holds in one of its releases, 2.18 to 2.30 (docs/time-model.md says where each number
/// stands).
struct NcclTables {
  int minor = 0;
  NcclLatency tree, ring, nvls, nvls_tree, pat, collnet_direct, collnet_chain;
  std::array<NcclCaps, 4> caps{};  // volta, ampere, hopper, blackwell
  double ring_ll_share = 0.5;      // of bus bandwidth, by which LL's flags lower it
  bool ring_ll_by_op = false;      // before 2.21: a quarter for reductions and several nodes, else a third
  double ring_ll128_share_one_per_node = 0.92;
  bool counts_all_inter_steps = false;  // before 2.23: 2 N steps leave a node instead of 2 (N - 1)
  bool one_per_node_takes_tree_net = true;
  double pat_share = 0.75;          // 0: no such algorithm
  bool nvls_has_efficiency = true;  // from 2.28; before, 5/6 of the channels' speed
  bool nvls_tree_halves = false;    // 2.18: 0.7 N / (2 (N - 1))
  bool nvls_gathers = true;         // all_gather and reduce_scatter may use NVLS
  bool nvls_gather_share = true;    // from 2.27: of it (ppn - 1) / ppn, at most 0.9 of the network's
};

/// The tables of release 2.`minor`, 18 to 30.
NcclTables nccl_tables(int minor);

/// By which tree bandwidth is multiplied at 64 B * 2^k.
double nccl_tree_correction(std::size_t protocol, std::size_t k);
constexpr std::size_t k_nccl_tree_corrections = 24;

constexpr int k_oldest_nccl = 18;
constexpr int k_newest_nccl = 30;

}  // namespace commlens
