#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "commlens/comm/volume.hpp"
#include "commlens/trace/trace.hpp"

/// Laws that the messages of any job keep.
namespace commlens {

/// Kinds of messages that are not received as often as they are sent, between the same ranks in the same
/// iteration.
inline std::int64_t unmatched_messages(const Trace& trace) {
  using Channel = std::tuple<Iteration, std::int64_t, std::int64_t, std::string, std::int64_t>;
  std::map<Channel, std::int64_t> balance;
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        if (is_point_to_point(op.kind)) {
          const std::vector<Rank> pair = trace.groups.members(op.group, rank);
          balance[{event.iteration, pair[0].value, pair[1].value, std::string(name_of(op.dtype)),
                   message_bytes(op).value}] += op.kind == CommKind::send ? 1 : -1;
        }
      }
    }
  }
  return std::count_if(balance.begin(), balance.end(), [](const auto& each) { return each.second != 0; });
}

/// Groups whose members do not all make the same collective calls in the same order: they would wait for
/// ever.
inline std::int64_t disagreeing_groups(const Trace& trace) {
  using Call = std::tuple<Iteration, CommKind, DType, std::int64_t, std::int64_t>;
  std::map<std::vector<Rank>, std::map<std::int64_t, std::vector<Call>>> calls;
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        const bool has_size = op.match == Match::exact;
        if (!is_point_to_point(op.kind)) {
          calls[trace.groups.members(op.group, rank)][rank.value].push_back(
              {event.iteration, op.kind, op.dtype, has_size ? op.input.value : 0,
               has_size ? op.output.value : 0});
        }
      }
    }
  }
  return std::count_if(calls.begin(), calls.end(), [](const auto& group) {
    return group.second.size() != group.first.size() ||
           std::any_of(group.second.begin(), group.second.end(),
                       [&](const auto& member) { return member.second != group.second.begin()->second; });
  });
}

}  // namespace commlens
