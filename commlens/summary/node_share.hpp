#pragma once
#include "commlens/base/sums.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The destinations of a call of a kind: none, the next member of a ring, every other member, or the second
/// of two (docs/volumes.md). `none` also for unknown kinds and for the receiving side.
enum class Route : std::uint8_t { none, ring, everyone, pair };
Route route_of(CommKind kind);

/// The part of a call's wire bytes that leaves the node, averaged over the ranks of a class; node k holds the
/// ranks [k g, (k + 1) g) with g = `ranks_per_node` >= 1.
///   all_reduce, all_gather, reduce_scatter, broadcast, reduce: a ring through the members in ascending
///   order, closed;
///     every member sends the same to the next, so it is the share of neighbours on different nodes
///   all_to_all: each member sends an equal part to every other, so it is the share of members on other nodes
///   send: 1 when source and destination are on different nodes; 0 for every other kind
/// Exact up to 4 Mi ranks in the class; of larger ones the first 4 Mi count.
Fraction inter_node_share(const GroupTable& groups, GroupId group, CommKind kind, RankRange ranks,
                          std::int64_t ranks_per_node);

}  // namespace commlens
