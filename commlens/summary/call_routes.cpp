#include "commlens/summary/call_routes.hpp"

#include <algorithm>

namespace commlens {
namespace {

/// The index of a rank among the members of its call; std::nullopt if the group does not contain the rank.
std::optional<std::size_t> position_of(const CallRoute& route, CommKind kind, Rank rank) {
  const std::vector<Rank>& members = route.members;
  if (route.is_pair()) {
    const std::size_t side = kind == CommKind::send ? 0 : 1;
    return members.size() == 2 && members[side] == rank ? std::optional(side) : std::nullopt;
  }
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end()
             ? std::nullopt
             : std::optional<std::size_t>(static_cast<std::size_t>(found - members.begin()));
}

bool never_waits(const CallRoute& route) {
  const std::vector<Rank>& members = route.members;
  return members.size() == 1 || (route.is_pair() && members.size() == 2 && members.front() == members.back());
}

}  // namespace

CallRoute route_of(const Trace& tables, OpId id, Rank rank) {
  const CommOp& op = tables.op(id);
  CallRoute route;
  if (op.kind == CommKind::other) {
    return route;
  }
  route.channel.kind = op.kind == CommKind::recv ? CommKind::send : op.kind;
  route.members = tables.groups.members(op.group, rank);
  MatchedGroup& group = route.channel.group;
  group.axis = tables.groups.axis(op.group);
  if (tables.groups.pattern(op.group)) {
    group.members = route.members;
  } else {
    group.list = op.group;
  }
  if (op.root && op.root->value >= 0 && op.root->value < std::ssize(route.members)) {
    route.channel.root = route.members[static_cast<std::size_t>(op.root->value)].value;
  }
  if (never_waits(route)) {
    route.fate = CallFate::alone;
    return route;
  }
  const std::optional<std::size_t> position = position_of(route, op.kind, rank);
  route.fate = position ? CallFate::matched : CallFate::without_group;
  route.position = position.value_or(0);
  return route;
}

}  // namespace commlens
