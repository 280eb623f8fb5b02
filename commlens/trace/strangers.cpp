#include "commlens/trace/strangers.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "commlens/trace/comm_members.hpp"
#include "commlens/trace/manifest.hpp"

namespace commlens {
namespace {

bool is_stranger(Rank rank) { return rank >= k_first_stranger; }

/// Finds the ranks for which a rank's tables have other numbers.
class Strangers {
 public:
  explicit Strangers(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Of a list of all members, by their rank in the communicator.
  void learn(CommunicatorId communicator, const std::vector<Rank>& members) {
    if (communicator == k_no_communicator || !std::any_of(members.begin(), members.end(), is_stranger)) {
      return;
    }
    const std::vector<std::optional<Rank>> known =
        published_members(directory_, static_cast<std::uint64_t>(communicator), members.size());
    for (std::size_t member = 0; member < std::min(known.size(), members.size()); ++member) {
      if (is_stranger(members[member]) && known[member]) {
        ranks_[{communicator, members[member]}] = *known[member];
      }
    }
  }

  std::vector<Rank> resolved(CommunicatorId communicator, std::vector<Rank> members) const {
    for (Rank& member : members) {
      const auto found = ranks_.find({communicator, member});
      member = found == ranks_.end() ? member : found->second;
    }
    return members;
  }

 private:
  std::filesystem::path directory_;
  std::map<std::pair<CommunicatorId, Rank>, Rank> ranks_;
};

}  // namespace

void resolve_strangers(const std::filesystem::path& directory, Trace& tables, std::vector<OpId>& ops) {
  Strangers strangers(directory);
  const auto members_of = [&](OpId op) {
    const GroupId group = tables.op(op).group;
    return tables.groups.knows_members(group) ? tables.groups.members(group, Rank{0}) : std::vector<Rank>{};
  };
  for (const OpId op : ops) {
    if (op != k_lost_op && !is_point_to_point(tables.op(op).kind)) {
      strangers.learn(tables.groups.communicator(tables.op(op).group), members_of(op));
    }
  }
  for (OpId& op : ops) {
    const std::vector<Rank> members = op == k_lost_op ? std::vector<Rank>{} : members_of(op);
    if (!std::any_of(members.begin(), members.end(), is_stranger)) {
      continue;
    }
    CommOp known = tables.op(op);
    const CommunicatorId communicator = tables.groups.communicator(known.group);
    const Axis axis = tables.groups.axis(known.group);
    known.group = tables.groups.intern(strangers.resolved(communicator, members), axis, communicator);
    op = tables.intern(known);
  }
}

}  // namespace commlens
