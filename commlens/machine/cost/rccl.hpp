#pragma once
#include <cstddef>
#include <vector>

#include "commlens/machine/cost/call.hpp"
#include "commlens/machine/cost/comm_graph.hpp"

namespace commlens {

/// What RCCL's estimate depends on besides the call.
struct RcclSetting {
  std::size_t model = 0;  // of rccl_tables.hpp
  CommGraph graph;
  Architecture architecture = Architecture::other;
  CpuVendor cpu = CpuVendor::other;
};

/// As nccl_candidates, by RCCL's own tables, which differ from NCCL's in every number.
/// Source: ROCm/rccl 0cbce2a7 src/graph/tuning.cc:57-61, 364-381.
std::vector<Candidate> rccl_candidates(const RcclSetting& setting, const TimedCall& call);

}  // namespace commlens
