#include "commlens/summary/node_share.hpp"

#include <algorithm>
#include <vector>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// Messages between different nodes, out of `messages_in` a group of this size.
std::int64_t crossings(Route route, const std::vector<std::int64_t>& nodes) {
  const std::size_t size = nodes.size();
  if (route == Route::pair) {
    return nodes[0] == nodes[1] ? 0 : 1;
  }
  std::int64_t crossing = 0;
  if (route == Route::ring) {
    for (std::size_t at = 0; at < size; ++at) {
      crossing += nodes[at] == nodes[(at + 1) % size] ? 0 : 1;
    }
    return crossing;
  }
  std::size_t first = 0;  // of the members on one node: `nodes` ascends
  for (std::size_t at = 1; at <= size; ++at) {
    if (at == size || nodes[at] != nodes[first]) {
      crossing += static_cast<std::int64_t>((at - first) * (size - (at - first)));
      first = at;
    }
  }
  return crossing;
}

std::int64_t messages_in(Route route, std::int64_t size) {
  return route == Route::pair ? 1 : route == Route::ring ? size : size * (size - 1);
}

}  // namespace

Route route_of(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::broadcast:
    case CommKind::reduce:
      return Route::ring;
    case CommKind::all_to_all:
      return Route::everyone;
    case CommKind::send:
      return Route::pair;
    case CommKind::recv:
    case CommKind::barrier:
    case CommKind::other:
      return Route::none;
  }
  return Route::none;
}

Fraction inter_node_share(const GroupTable& groups, GroupId group, CommKind kind, RankRange ranks,
                          std::int64_t ranks_per_node) {
  COMMLENS_CHECK(ranks_per_node >= 1, "a node holds at least one rank");
  constexpr std::int64_t most_ranks = std::int64_t{1} << 22;  // looked at, the first of the class
  ranks = first_ranks(ranks, most_ranks);
  const Route route = route_of(kind);
  const std::int64_t size = groups.size(group);
  if (route == Route::none || size < 2) {
    return {};
  }
  // A group looks the same to all its members, so each is visited once and counts for those of the class.
  std::vector<bool> counted(static_cast<std::size_t>(ranks.count()), false);
  Fraction share{0, ranks.count() * messages_in(route, size)};
  for (const Rank self : ranks) {
    if (counted[static_cast<std::size_t>(ranks.index_of(self))]) {
      continue;
    }
    std::vector<Rank> members = groups.members(group, self);
    if (route != Route::pair) {
      std::sort(members.begin(), members.end());
    }
    std::int64_t weight = 0;
    std::vector<std::int64_t> nodes;
    for (const Rank member : members) {
      nodes.push_back(member.value / ranks_per_node);
      if (route != Route::pair && ranks.contains(member)) {
        counted[static_cast<std::size_t>(ranks.index_of(member))] = true;
        ++weight;
      }
    }
    counted[static_cast<std::size_t>(ranks.index_of(self))] = true;
    share.numerator += std::max<std::int64_t>(weight, 1) * crossings(route, nodes);
  }
  return share;
}

}  // namespace commlens
