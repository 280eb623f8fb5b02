#include "commlens/app/named_axes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "commlens/trace/group_axes.hpp"

namespace commlens {
namespace {

/// The group of an op in another table, under the axis that it has on the mesh.
GroupId renamed(const Trace& trace, const CommOp& op, const Mesh& mesh, GroupTable& into) {
  const Axis known = trace.groups.axis(op.group);
  if (trace.groups.size(op.group) == 0) {
    return into.intern(std::vector<Rank>{}, known, trace.groups.communicator(op.group));  // nothing is known
  }
  if (!trace.groups.knows_members(op.group)) {
    return into.intern_hidden(trace.groups.size(op.group), trace.groups.name(op.group), known);
  }
  const std::vector<Rank> members = trace.groups.members(op.group, Rank{0});
  const Axis axis = known == Axis::unknown ? axis_on_mesh(trace, op, mesh, Rank{0}) : known;
  return into.intern(members, axis, trace.groups.communicator(op.group));
}

}  // namespace

Trace with_named_axes(Trace trace, const Mesh& mesh) {
  const bool is_nameless = std::any_of(trace.ops().begin(), trace.ops().end(), [&](const CommOp& op) {
    return trace.groups.axis(op.group) == Axis::unknown && trace.groups.knows_members(op.group);
  });
  if (!is_nameless || trace.groups.mesh() || trace.job_ranks() != mesh.ranks()) {
    return trace;
  }
  Trace named;
  for (const Rule& rule : trace.rules()) {
    named.intern(rule);
  }
  std::vector<OpId> ids;
  for (const CommOp& op : trace.ops()) {
    CommOp renamed_op = op;
    renamed_op.group = renamed(trace, op, mesh, named.groups);
    ids.push_back(named.intern(renamed_op));
  }
  named.tags = std::move(trace.tags);
  named.names = std::move(trace.names);
  named.provenance = std::move(trace.provenance);
  named.streams = std::move(trace.streams);
  for (RankStream& stream : named.streams) {
    for (CommEvent& event : stream.events) {
      event.op = ids[static_cast<std::size_t>(event.op)];
    }
  }
  return named;
}

}  // namespace commlens
