#include "commlens/simulate/timeline/call_flows.hpp"

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

// 102,400 ranks in groups of 81; 2,896 ranks in one.
constexpr std::int64_t k_most_exchanged = std::int64_t{1} << 23;

}  // namespace

std::optional<CallPattern> pattern_of(const CommOp& op) {
  if (op.kind == CommKind::barrier || op.kind == CommKind::other || message_bytes(op).value <= 0) {
    return std::nullopt;
  }
  return is_point_to_point(op.kind)        ? CallPattern::message
         : op.kind == CommKind::all_to_all ? CallPattern::exchange
                                           : CallPattern::ring;
}

std::int64_t rings_of(const Placement& place) { return place.nodes > 1 ? place.per_node() : 1; }

std::vector<Hop> hops_of(const Topology& topology, std::span<const Rank> members, CallPattern pattern,
                         const Placement& place) {
  switch (pattern) {
    case CallPattern::message:
      return {{members.front(), members.back()}};
    case CallPattern::ring:
      return ring_hops(topology, members, rings_of(place));
    case CallPattern::exchange:
      return exchange_hops(members);
  }
  return {};
}

double share_of_hop(CommKind kind, const Placement& place) {
  return is_point_to_point(kind) ? 1
         : kind == CommKind::all_to_all
             ? 1 / static_cast<double>(place.ranks)
             : sent_share(kind, place.ranks) / static_cast<double>(rings_of(place));
}

Result<void> check_exchanges(const Plan& plan) {
  for (const CommOp& op : plan.tables.ops()) {
    const std::int64_t size = plan.tables.groups.size(op.group);
    if (op.kind == CommKind::all_to_all && size * plan.job.layout.ranks > k_most_exchanged) {
      return failure(fmt::format(
          "all_to_all of {} ranks in a job of {}: contention is known of {} messages at most; leave "
          "--contention out, or exchange in smaller groups",
          size, plan.job.layout.ranks, k_most_exchanged));
    }
  }
  return {};
}

}  // namespace commlens
