#include "commlens/trace/group_axes.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace commlens {
namespace {

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

/// Of `members`, ascending, at least one.
Axis axis_of_set(const Mesh& mesh, const std::vector<Rank>& members) {
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
    // Each of these groups looks the same from all of its members.
    if (groups.size(group) == static_cast<std::int64_t>(members.size()) &&
        groups.members(group, members.front()) == members) {
      return pattern.axis;
    }
  }
  return axis_of_part(mesh, members);
}

}  // namespace

Axis axis_on_mesh(const Trace& trace, const CommOp& op, const Mesh& mesh, Rank self) {
  std::vector<Rank> members = trace.groups.members(op.group, self);
  const bool fits = !members.empty() && std::all_of(members.begin(), members.end(), [&](Rank member) {
    return member.value >= 0 && member.value < mesh.ranks();
  });
  if (!fits) {
    return Axis::unknown;
  }
  if (is_point_to_point(op.kind) && members.size() == 2) {
    return axis_of_part(mesh, members);
  }
  std::sort(members.begin(), members.end());
  return axis_of_set(mesh, members);
}

Axis AxesByMembers::of(const CommOp& op, Rank self) {
  const std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(op.group)} * 2 + std::uint64_t{is_point_to_point(op.kind)};
  const auto [found, added] = axes_.try_emplace(key, Axis::unknown);
  if (added) {
    const Axis axis = axis_on_mesh(trace_, op, mesh_, self);
    found->second = axis == Axis::unknown ? trace_.groups.axis(op.group) : axis;
  }
  return found->second;
}

}  // namespace commlens
