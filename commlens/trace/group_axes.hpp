#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// The axis of `mesh` that the members of an op's group, as `self` sees it, stand along, whatever the trace
/// calls it: all positions of it, or at least two that differ in nothing else. Of groups that fit several,
/// the first of dp, tp, pp, model, world; `unknown` when none fits or a member is not on the mesh.
Axis axis_on_mesh(const Trace& trace, const CommOp& op, const Mesh& mesh, Rank self);

/// The axes of a trace's groups by their members on a mesh, so that the same ranks stand under the same axis
/// in every trace; what the trace says where the members do not tell. Groups with the same id run along one
/// axis for every rank.
class AxesByMembers {
 public:
  AxesByMembers(const Trace& trace, Mesh mesh) : trace_(trace), mesh_(mesh) {}
  Axis of(const CommOp& op, Rank self);

 private:
  const Trace& trace_;
  Mesh mesh_;
  std::unordered_map<std::uint64_t, Axis> axes_;  // by group and whether it is a pair
};

}  // namespace commlens
