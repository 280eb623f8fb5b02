#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/machine/cost/call.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/network/transfers.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// The ways that the bytes of a call go between the ranks of its group.
enum class CallPattern : std::uint8_t {
  message,   // from the sender to the receiver
  ring,      // each rank to the next
  exchange,  // each rank to every other
};

/// Of an all_to_all exchange, of other collectives ring; std::nullopt of calls without bytes.
std::optional<CallPattern> pattern_of(const CommOp& op);

/// Rings that a group's bytes are spread over: one for each of its ranks on a node, so that each leaves the
/// node by another NIC; inside one node they would all be the same.
std::int64_t rings_of(const Placement& place);

/// The messages of a call. `place`: of `members`.
std::vector<Hop> hops_of(const Topology& topology, std::span<const Rank> members, CallPattern pattern,
                         const Placement& place);

/// The part of a call's bytes that each of these messages carries.
double share_of_hop(CommKind kind, const Placement& place);

/// Fails where a plan's all_to_all have more messages than are looked at in seconds.
Result<void> check_exchanges(const Plan& plan);

}  // namespace commlens
