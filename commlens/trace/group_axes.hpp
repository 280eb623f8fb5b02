#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// The axis of `mesh` along which the members of an op's group, as `self` sees it, are, whatever the trace
/// calls it. In this order: all positions of an axis, of the dense view or of another one; some positions of
/// an axis of the dense view; `model`, all of pp and tp; `world`, all ranks. `unknown` when none fits or a
/// member is not on the mesh.
Axis axis_on_mesh(const Trace& trace, const CommOp& op, const Mesh& mesh, Rank self);

/// The axes of a trace's groups by their members on a mesh, so that the same ranks stand under the same axis
/// in every trace; what the trace says where the members do not determine it. Groups with the same id run
/// along one axis for every rank.
class AxesByMembers {
 public:
  AxesByMembers(const Trace& trace, Mesh mesh) : trace_(trace), mesh_(std::move(mesh)) {}
  Axis of(const CommOp& op, Rank self);

 private:
  const Trace& trace_;
  Mesh mesh_;
  std::unordered_map<std::uint64_t, Axis> axes_;  // by group and whether it is a pair
};

}  // namespace commlens
