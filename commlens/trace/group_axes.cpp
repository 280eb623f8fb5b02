#include "commlens/trace/group_axes.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace commlens {
namespace {

/// The axes of a view along which members differ.
struct Extent {
  std::vector<MeshAxis> axes;
  bool is_full = false;  // all positions along all of these

  bool is_along(std::initializer_list<Axis> wanted) const {
    return axes.size() == wanted.size() && std::all_of(wanted.begin(), wanted.end(), [&](const Axis& axis) {
             return std::any_of(axes.begin(), axes.end(),
                                [&](const MeshAxis& one) { return one.axis == axis; });
           });
  }
};

Extent extent_of(const MeshView& view, const std::vector<Rank>& members) {
  Extent extent;
  std::int64_t ranks = 1;
  for (std::size_t at = 0; at < view.axes().size(); ++at) {
    const std::int64_t first = view.position(members.front(), at);
    const bool differs = std::any_of(members.begin(), members.end(),
                                     [&](Rank member) { return view.position(member, at) != first; });
    if (differs) {
      extent.axes.push_back(view.axes()[at]);
      ranks *= view.axes()[at].size;
    }
  }
  extent.is_full = ranks == std::ssize(members);
  return extent;
}

/// Of a send or receive, or of members that are not all positions of any axis.
Axis axis_of_part(const Extent& extent) {
  return extent.axes.size() == 1 ? extent.axes.front().axis : Axis::unknown;
}

/// Of different `members`, ascending, at least one.
Axis axis_of_set(const Mesh& mesh, const std::vector<Rank>& members) {
  if (members.size() == 1) {
    return Axis::self;
  }
  for (const MeshView& view : mesh.views()) {
    const Extent extent = extent_of(view, members);
    if (extent.is_full && extent.axes.size() == 1) {
      return extent.axes.front().axis;
    }
  }
  const Extent extent = extent_of(mesh.dense(), members);
  if (extent.is_full && extent.is_along({Axis::pp, Axis::tp})) {
    return Axis::model;
  }
  return extent.is_full && std::ssize(members) == mesh.ranks() ? Axis::world : axis_of_part(extent);
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
    return axis_of_part(extent_of(mesh.dense(), members));
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
