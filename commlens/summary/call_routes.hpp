#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// How a call is matched, seen from its rank.
enum class CallFate : std::uint8_t {
  matched,
  alone,          // in a group of one rank: never waits
  without_group,  // the other members are not known
  unclassified    // of kind `other`: its participants are not known
};

/// A group seen from one of its members. Each list of ranks in a trace's groups is a separate communicator. A
/// pattern represents many, distinguished by their axis and members.
struct MatchedGroup {
  std::optional<GroupId> list;
  Axis axis = Axis::unknown;
  std::vector<Rank> members;  // of a pattern
  friend auto operator<=>(const MatchedGroup&, const MatchedGroup&) = default;
};

/// The channel on which calls of several ranks are matched in order: kind, group and root; sends and receives
/// of one ordered pair share a channel.
struct ChannelKey {
  CommKind kind = CommKind::other;  // of a pair: send
  std::int64_t root = -1;           // global rank; -1: none
  MatchedGroup group;
  /// If iterations come in any order, calls of different iterations are matched separately; else 0.
  Iteration iteration = 0;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

/// The channel of the calls of one op of one rank.
struct CallRoute {
  CallFate fate = CallFate::unclassified;
  ChannelKey channel;         // of a matched call, and the rest too
  std::vector<Rank> members;  // in group order: of a pair source, destination
  std::size_t position = 0;   // of the rank among them
  bool is_pair() const { return channel.kind == CommKind::send; }
};

CallRoute route_of(const Trace& tables, OpId op, Rank rank);

}  // namespace commlens
