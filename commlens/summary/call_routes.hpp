#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// What a call is matched by, seen from the rank that makes it.
enum class CallFate : std::uint8_t {
  matched,
  alone,          // in a group of one rank: there is nobody to wait for
  without_group,  // nobody knows who else takes part
  unclassified    // of kind `other`: nobody knows who must call it
};

/// A group as one of its members sees it. Each list of ranks in a trace's groups is a communicator of its
/// own. A pattern stands for many, which their axis and members tell apart.
struct MatchedGroup {
  std::optional<GroupId> list;
  Axis axis = Axis::unknown;
  std::vector<Rank> members;  // of a pattern
  friend auto operator<=>(const MatchedGroup&, const MatchedGroup&) = default;
};

/// What calls of several ranks must have in common to be matched in order: kind, group and root; sends and
/// receives of one ordered pair share a channel.
struct ChannelKey {
  CommKind kind = CommKind::other;  // of a pair: send
  std::int64_t root = -1;           // global rank; -1: none
  MatchedGroup group;
  /// Where iterations come in any order, calls of different ones are matched apart; else 0.
  Iteration iteration = 0;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

/// Where the calls of one op of one rank belong.
struct CallRoute {
  CallFate fate = CallFate::unclassified;
  ChannelKey channel;         // of a matched call, and the rest too
  std::vector<Rank> members;  // in group order: of a pair source, destination
  std::size_t position = 0;   // of the rank among them
  bool is_pair() const { return channel.kind == CommKind::send; }
};

CallRoute route_of(const Trace& tables, OpId op, Rank rank);

}  // namespace commlens
