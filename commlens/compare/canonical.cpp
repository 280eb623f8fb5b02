#include "commlens/compare/canonical.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace commlens {
namespace {

Axis axis_of_pair(const Mesh& mesh, Rank source, Rank destination) {
  const Coordinates from = mesh.coordinates(source);
  const Coordinates to = mesh.coordinates(destination);
  const bool pipeline = from.pipeline != to.pipeline;
  const bool data = from.data != to.data;
  const bool tensor = from.tensor != to.tensor;
  if (pipeline + data + tensor != 1) {
    return Axis::unknown;
  }
  return pipeline ? Axis::pp : data ? Axis::dp : Axis::tp;
}

/// Of members that differ along one axis only, though not all positions of it are there.
Axis axis_of_part(const Mesh& mesh, const std::vector<Rank>& members) {
  const Coordinates first = mesh.coordinates(members.front());
  bool pipeline = false;
  bool data = false;
  bool tensor = false;
  for (const Rank member : members) {
    const Coordinates at = mesh.coordinates(member);
    pipeline = pipeline || at.pipeline != first.pipeline;
    data = data || at.data != first.data;
    tensor = tensor || at.tensor != first.tensor;
  }
  if (pipeline + data + tensor != 1) {
    return Axis::unknown;
  }
  return pipeline ? Axis::pp : data ? Axis::dp : Axis::tp;
}

Axis axis_on_mesh(const Mesh& mesh, std::vector<Rank> members, Rank self) {
  std::sort(members.begin(), members.end());
  if (members.size() == 1) {
    return Axis::self;
  }
  constexpr Span own{};
  constexpr Span all{Span::Shape::all};
  using Shape = GroupPattern::Shape;
  const std::array<GroupPattern, 5> patterns = {{{Shape::mesh, Axis::dp, own, all, own},
                                                 {Shape::mesh, Axis::tp, own, own, all},
                                                 {Shape::mesh, Axis::pp, all, own, own},
                                                 {Shape::mesh, Axis::model, all, own, all},
                                                 {Shape::mesh, Axis::world, all, all, all}}};
  GroupTable groups(mesh);
  for (const GroupPattern& pattern : patterns) {
    const GroupId group = groups.intern(pattern);
    if (groups.size(group) == static_cast<std::int64_t>(members.size()) &&
        groups.members(group, self) == members) {
      return pattern.axis;
    }
  }
  return axis_of_part(mesh, members);
}

}  // namespace

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
  if (added && !trace_.groups.pattern(op.group)) {
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
  const std::optional<GroupPattern> pattern = trace_.groups.pattern(op.group);
  if (pattern && pattern->shape == GroupPattern::Shape::mesh) {
    for (const Rank member : members) {  // who sees the same group, so that it is built once
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
  if (axis != Axis::unknown || !mesh || self.value >= mesh->ranks()) {
    return axis;
  }
  const std::vector<Rank> members = trace.groups.members(op.group, self);
  const bool fits = std::all_of(members.begin(), members.end(), [&](Rank member) {
    return member.value >= 0 && member.value < mesh->ranks();
  });
  if (!fits || members.empty()) {
    return axis;
  }
  return is_point_to_point(op.kind) && members.size() == 2 ? axis_of_pair(*mesh, members[0], members[1])
                                                           : axis_on_mesh(*mesh, members, self);
}

Axis AxesByMembers::of(const CommOp& op, Rank self) {
  const std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(op.group)} * 2 + std::uint64_t{is_point_to_point(op.kind)};
  const auto [found, added] = axes_.try_emplace(key, Axis::unknown);
  if (added) {
    found->second = resolve(op, self);
  }
  return found->second;
}

Axis AxesByMembers::resolve(const CommOp& op, Rank self) const {
  const std::vector<Rank> members = trace_.groups.members(op.group, self);
  const bool fits = !members.empty() && std::all_of(members.begin(), members.end(), [&](Rank member) {
    return member.value >= 0 && member.value < mesh_.ranks();
  });
  if (!fits || self.value >= mesh_.ranks()) {
    return trace_.groups.axis(op.group);
  }
  const Axis axis = is_point_to_point(op.kind) && members.size() == 2
                        ? axis_of_pair(mesh_, members[0], members[1])
                        : axis_on_mesh(mesh_, members, self);
  return axis == Axis::unknown ? trace_.groups.axis(op.group) : axis;
}

}  // namespace commlens
