#include "commlens/formats/otf2/comms.hpp"

#include <algorithm>

#include "commlens/formats/otf2/names.hpp"

namespace commlens::formats::otf2 {

Otf2Comms::Otf2Comms(const Trace& trace, std::int64_t ranks) : trace_(trace), ranks_(ranks) {
  std::vector<Rank> all;
  for (Rank rank{0}; rank.value < ranks; ++rank.value) {
    all.push_back(rank);
  }
  find_world(trace);
  rows_[{world_, all}] = k_all_ranks;
  alike_[all] = 1;
  comms_.push_back({"MPI_COMM_WORLD", all});
  for (const CommOp& op : trace.ops()) {
    const CommunicatorId communicator = trace.groups.communicator(op.group);
    if (is_point_to_point(op.kind) || op.kind == CommKind::other || communicator == k_no_communicator) {
      continue;  // the pair of a one-sided call is not its communicator
    }
    const auto [found, added] = numbered_.try_emplace(communicator);
    if (added) {
      const std::vector<Rank> members = trace.groups.members(op.group, Rank{0});
      found->second.row = intern(communicator, members, trace.groups.axis(op.group));
      for (std::uint32_t position = 0; position < members.size(); ++position) {
        found->second.positions[members[position].value] = position;
      }
    }
  }
}

/// Of several communicators of all ranks it is the one that MPI calls so. Where calls are not MPI's, the
/// first.
void Otf2Comms::find_world(const Trace& trace) {
  for (const CommOp& op : trace.ops()) {
    const CommunicatorId communicator = trace.groups.communicator(op.group);
    if (communicator == world_communicator()) {
      world_ = communicator;
      return;
    }
    const bool is_of_all = !is_point_to_point(op.kind) && trace.groups.size(op.group) == ranks_ &&
                           !is_mpi_function(trace.names.text(op.name));
    if (world_ == k_no_communicator && is_of_all && communicator != k_no_communicator) {
      const std::vector<Rank> members = trace.groups.members(op.group, Rank{0});
      world_ = std::is_sorted(members.begin(), members.end()) ? communicator : world_;
    }
  }
}

std::uint32_t Otf2Comms::intern(CommunicatorId communicator, const std::vector<Rank>& members, Axis axis) {
  const bool is_alone = members.size() == 1;
  Key key = is_alone ? Key{} : Key{communicator, members};
  const auto [found, added] = rows_.try_emplace(std::move(key), static_cast<std::uint32_t>(comms_.size()));
  if (added) {
    const std::int64_t ordinal = is_alone ? 1 : ++alike_[members];
    comms_.push_back(
        {otf2_comm_name(members, ranks_, axis, ordinal), is_alone ? std::vector<Rank>{} : members});
  }
  return found->second;
}

std::optional<std::uint32_t> Otf2Comms::of_group(GroupId group, Rank self) {
  const Rank seen_by = trace_.groups.pattern(group) != nullptr ? self : Rank{0};  // a list is the same to all
  const auto [found, added] = of_group_.try_emplace({group, seen_by});
  if (added) {
    const std::vector<Rank> members = trace_.groups.members(group, seen_by);
    if (!members.empty()) {
      found->second = intern(trace_.groups.communicator(group), members, trace_.groups.axis(group));
    }
  }
  return found->second;
}

Otf2Comms::Place Otf2Comms::of_message(GroupId pair, Rank self, Rank peer) {
  const auto numbered = numbered_.find(trace_.groups.communicator(pair));
  if (numbered != numbered_.end()) {
    const auto& positions = numbered->second.positions;
    const auto found = positions.find(peer.value);
    if (found != positions.end() && positions.contains(self.value)) {
      return {numbered->second.row, found->second};
    }
  }
  return {k_all_ranks, static_cast<std::uint32_t>(peer.value)};
}

}  // namespace commlens::formats::otf2
