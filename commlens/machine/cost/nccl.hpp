#pragma once
#include <vector>

#include "commlens/machine/cost/call.hpp"
#include "commlens/machine/cost/comm_graph.hpp"
#include "commlens/machine/cost/nccl_tables.hpp"

namespace commlens {

/// What NCCL's estimate depends on besides the call.
struct NcclSetting {
  NcclTables tables;
  CommGraph graph;
  Architecture architecture = Architecture::other;
  CpuVendor cpu = CpuVendor::other;
};

/// Every (algorithm, protocol) that NCCL may take for the call with its own estimate of the time, in its
/// order (of which the first of the fastest is taken). Not for all_to_all, send and recv
/// (point_to_point.hpp). Source: NVIDIA/nccl src/graph/tuning.cc (v2.30.7-1: 288-436, 620-654),
/// docs/time-model.md.
std::vector<Candidate> nccl_candidates(const NcclSetting& setting, const TimedCall& call);

/// Whether NCCL has the algorithm for such a call on any machine; where it has not, it ignores a request for
/// it.
bool nccl_has(std::string_view algorithm, CommKind op, const Placement& place);

}  // namespace commlens
