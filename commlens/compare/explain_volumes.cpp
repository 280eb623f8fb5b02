#include "commlens/compare/explain_volumes.hpp"

#include <algorithm>
#include <set>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/stream_calls.hpp"
#include "commlens/trace/group_axes.hpp"

namespace commlens {

std::vector<RankRange> common_ranges(const Scope& scope, const std::vector<const Trace*>& traces) {
  std::set<std::int64_t> starts;
  for (const Trace* trace : traces) {
    for (const RankStream& stream : trace->streams) {
      starts.insert(stream.ranks.first.value);
      starts.insert(stream.ranks.last.value + 1);
    }
  }
  std::vector<RankRange> ranges;
  for (const Segment& segment : scope.segments) {
    std::int64_t first = segment.ranks.first.value;
    for (auto next = starts.upper_bound(first); first <= segment.ranks.last.value;) {
      const std::int64_t end =
          next == starts.end() ? segment.ranks.last.value + 1 : std::min(*next, segment.ranks.last.value + 1);
      ranges.push_back({Rank{first}, Rank{end - 1}});
      first = end;
      if (next != starts.end()) {
        ++next;
      }
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
