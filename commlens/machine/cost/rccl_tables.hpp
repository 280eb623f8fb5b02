#pragma once
#include <cstddef>

namespace commlens {

constexpr std::size_t k_rccl_bins = 27;

/// What RCCL's table holds for one kind of node. Each pair is tree, ring; each triple LL, LL128, Simple.
struct RcclModel {
  double link_latency[2][3];               // us of a step inside a node
  double net_latency[2][3];                // and between nodes
  double share[2][2][3];                   // of bus bandwidth: up to two nodes, more; 0: not available
  double tree_correction[3][k_rccl_bins];  // at 64 B * 2^k
  double ring_correction[3][k_rccl_bins];  // on several nodes
};

constexpr std::size_t k_rccl_models = 6;
const RcclModel& rccl_model(std::size_t number);

}  // namespace commlens
