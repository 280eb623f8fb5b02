#include "commlens/compare/explain_volumes.hpp"

#include <algorithm>
#include <set>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/stream_calls.hpp"
#include "commlens/trace/group_axes.hpp"

namespace commlens {

namespace {

/// Cuts a gapless range at `starts`.
void add_parts(const RankRange& range, const std::set<std::int64_t>& starts, std::vector<RankRange>& parts) {
  std::int64_t first = range.first.value;
  for (auto next = starts.upper_bound(first); first <= range.last.value;) {
    const std::int64_t end =
        next == starts.end() ? range.last.value + 1 : std::min(*next, range.last.value + 1);
    parts.push_back({Rank{first}, Rank{end - 1}});
    first = end;
    if (next != starts.end()) {
      ++next;
    }
  }
}

}  // namespace

std::vector<RankRange> common_ranges(const Scope& scope, const std::vector<const Trace*>& traces) {
  std::set<std::int64_t> starts;
  for (const Trace* trace : traces) {
    for (const RankStream& stream : trace->streams) {
      for (const RankRange& piece : pieces_of(stream.ranks)) {
        starts.insert(piece.first.value);
        starts.insert(piece.last.value + 1);
      }
    }
  }
  std::vector<RankRange> ranges;
  for (const Segment& segment : scope.segments) {
    for (const RankRange& piece : pieces_of(segment.ranks)) {
      add_parts(piece, starts, ranges);
    }
  }
  return ranges;
}

std::vector<RankVolumes> volumes_per_range(const Trace& trace, const std::vector<RankRange>& ranges,
                                           Iteration iteration, const CompareOptions& options,
                                           const std::optional<Mesh>& mesh) {
  const std::vector<Iteration> wanted = {iteration};
  StreamCalls calls(trace, options, wanted);
  std::optional<AxesByMembers> axes;
  if (mesh) {
    axes.emplace(trace, *mesh);
  }
  std::vector<RankVolumes> result;
  for (const RankRange& range : ranges) {
    RankVolumes& volumes = result.emplace_back();
    const RankStream* stream = trace.stream_of(range.first);
    if (stream == nullptr) {
      continue;
    }
    for (const auto& [id, times] : calls.at(*stream, iteration).counts) {
      const CommOp& op = trace.op(id);
      const Rule& rule = trace.rule(op.rule);
      const Axis axis = axes ? axes->of(op, range.first) : trace.groups.axis(op.group);
      RankVolume& volume = volumes[{axis, op.kind, rule.name, rule.source}];
      volume.calls = saturating_sum(volume.calls, times);
      volume.message = saturating_sum(volume.message, saturating_product(message_bytes(op), times).value);
    }
  }
  return result;
}

}  // namespace commlens
