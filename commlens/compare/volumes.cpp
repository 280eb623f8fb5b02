#include <algorithm>
#include <map>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/compare/stream_calls.hpp"
#include "commlens/trace/group_axes.hpp"

namespace commlens {
namespace {

struct Volume {
  std::int64_t calls = 0;
  Bytes message;
};
using Volumes = std::map<std::pair<Axis, CommKind>, Volume>;

/// One side of the comparison: the calls of a trace, with axes from the mesh of either side.
class Side {
 public:
  Side(const Trace& trace, std::optional<Mesh> mesh, const CompareOptions& options,
       const std::vector<Iteration>& iterations)
      : trace_(trace), calls_(trace, options, iterations) {
    if (mesh) {
      axes_.emplace(trace, *mesh);
    }
  }

  void add(const RankStream& stream, RankRange ranks, Iteration iteration, Volumes& volumes) {
    for (const auto& [id, times] : calls_.at(stream, iteration).counts) {
      const CommOp& op = trace_.op(id);
      Volume& volume = volumes[{axes_ ? axes_->of(op, ranks.first) : trace_.groups.axis(op.group), op.kind}];
      const std::int64_t calls = saturating_product(times, ranks.count());
      volume.calls = saturating_sum(volume.calls, calls);
      volume.message = saturating_sum(volume.message, saturating_product(message_bytes(op), calls));
    }
  }

 private:
  const Trace& trace_;
  std::optional<AxesByMembers> axes_;
  StreamCalls calls_;
};

}  // namespace

Result<std::vector<VolumeDifference>> compare_volumes(const Trace& a, const Trace& b,
                                                      const CompareOptions& options) {
  Result<Scope> scope = common_scope(a, b, options);
  if (!scope) {
    return tl::unexpected(scope.error());
  }
  const std::vector<Iteration> last = {scope->iterations.back()};
  Volumes volumes_a;
  Volumes volumes_b;
  const std::optional<Mesh> mesh = a.groups.mesh() ? a.groups.mesh() : b.groups.mesh();
  Side side_a(a, mesh, options, last);
  Side side_b(b, mesh, options, last);
  for (const Segment& segment : scope->segments) {
    side_a.add(*segment.a, segment.ranks, last.front(), volumes_a);
    side_b.add(*segment.b, segment.ranks, last.front(), volumes_b);
  }

  std::map<std::pair<Axis, CommKind>, VolumeDifference> rows;
  for (const auto& [key, volume] : volumes_a) {
    rows[key] = {key.first, key.second, volume.calls, 0, volume.message, {}};
  }
  for (const auto& [key, volume] : volumes_b) {
    VolumeDifference& row = rows[key];
    row.axis = key.first;
    row.kind = key.second;
    row.calls_b = volume.calls;
    row.message_b = volume.message;
  }
  std::vector<VolumeDifference> result;
  for (const auto& [key, row] : rows) {
    result.push_back(row);
  }
  std::stable_sort(result.begin(), result.end(), [](const VolumeDifference& l, const VolumeDifference& r) {
    return std::max(l.message_a, l.message_b) > std::max(r.message_a, r.message_b);
  });
  return result;
}

}  // namespace commlens
