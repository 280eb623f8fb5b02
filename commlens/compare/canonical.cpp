#include "commlens/compare/canonical.hpp"

#include <algorithm>

#include "commlens/trace/group_axes.hpp"

namespace commlens {

CanonicalGroup CanonicalGroups::intern(const std::vector<Rank>& members) {
  const auto [found, added] =
      ids_.try_emplace(members, CanonicalGroup{static_cast<std::uint32_t>(members_.size())});
  if (added) {
    members_.push_back(&found->first);
  }
  return found->second;
}

ResolvedGroups::Resolved& ResolvedGroups::entry(const CommOp& op) {
  const std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(op.group)} * 2 + std::uint64_t{is_point_to_point(op.kind)};
  const auto [found, added] = resolved_.try_emplace(key);
  Resolved& resolved = found->second;
  if (added && trace_.groups.pattern(op.group) == nullptr) {
    const std::vector<Rank> members = trace_.groups.members(op.group, Rank{});
    resolved.same_for_all = true;
    resolved.ascending = std::is_sorted(members.begin(), members.end());
  }
  if (added) {
    resolved.of_rank.resize(resolved.same_for_all ? 1 : static_cast<std::size_t>(ranks_), 0);
  }
  return resolved;
}

CanonicalGroup ResolvedGroups::of(const CommOp& op, Rank self) {
  Resolved& resolved = entry(op);
  const std::size_t place = resolved.same_for_all ? 0 : static_cast<std::size_t>(self.value);
  if (resolved.of_rank[place] == 0) {
    resolved.of_rank[place] = static_cast<std::uint32_t>(resolve(op, self, resolved)) + 1;
  }
  return CanonicalGroup{resolved.of_rank[place] - 1};
}

CanonicalGroup ResolvedGroups::resolve(const CommOp& op, Rank self, Resolved& resolved) {
  std::vector<Rank> members = trace_.groups.members(op.group, self);
  if (!is_point_to_point(op.kind)) {
    std::sort(members.begin(), members.end());
  }
  const CanonicalGroup group = canonical_.intern(members);
  const GroupPattern* const pattern = trace_.groups.pattern(op.group);
  if (pattern != nullptr && pattern->shape == GroupPattern::Shape::mesh) {
    for (const Rank member : members) {  // ranks that see the same group, so that it is built once
      if (member.value < ranks_) {
        resolved.of_rank[static_cast<std::size_t>(member.value)] = static_cast<std::uint32_t>(group) + 1;
      }
    }
  }
  return group;
}

std::int64_t ResolvedGroups::root_of(const CommOp& op, Rank self) {
  if (!op.root) {
    return -1;
  }
  if (entry(op).ascending) {
    return op.root->value;
  }
  const std::vector<Rank> members = trace_.groups.members(op.group, self);
  if (op.root->value < 0 || op.root->value >= static_cast<std::int64_t>(members.size())) {
    return op.root->value;
  }
  const std::vector<Rank>& sorted = canonical_.members(of(op, self));
  const Rank root = members[static_cast<std::size_t>(op.root->value)];
  return std::find(sorted.begin(), sorted.end(), root) - sorted.begin();
}

Axis axis_of(const Trace& trace, const CommOp& op, const std::optional<Mesh>& mesh, Rank self) {
  const Axis axis = trace.groups.axis(op.group);
  return axis != Axis::unknown || !mesh ? axis : axis_on_mesh(trace, op, *mesh, self);
}

}  // namespace commlens
