#pragma once
#include <optional>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/call.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// Channels of one pattern, and what each carries (GB/s) inside a node and between nodes.
struct Channels {
  std::int64_t count = 0;
  double intra = 0;
  double inter = 0;
};

/// What NCCL's search finds for a placement. A ring's channels are those of trees too.
struct CommGraph {
  Channels ring;
  std::optional<Channels> nvls;
};

/// The graph of a placement on a machine: what the machine file states, else what the search's ladder of
/// speeds gives for its links and NICs. Fails where the file has neither. Source: NVIDIA/nccl
/// src/graph/search.cc:1036-1067, 1150-1285, connect.cc:460-482.
Result<CommGraph> comm_graph(const Machine& machine, const Placement& place);

/// NICs of a node that a group's ranks on it reach: those that each has a part of, at most all. 0: the
/// machine file does not say how many a node has.
double nics_of(const Machine& machine, const Placement& place);

}  // namespace commlens
