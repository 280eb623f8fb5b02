#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "commlens/compare/compare.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Calls and message bytes, of one rank or as a signed difference.
struct RankVolume {
  std::int64_t calls = 0;
  std::int64_t message = 0;
};

/// The calls of one rank in one iteration, by axis, op and the rule that predicted them.
struct VolumeKey {
  Axis axis = Axis::unknown;
  CommKind kind = CommKind::other;
  std::string rule;
  std::string source;
  friend auto operator<=>(const VolumeKey&, const VolumeKey&) = default;
};
using RankVolumes = std::map<VolumeKey, RankVolume>;

/// Ranges of ranks of `scope` within which all ranks have the same calls in each of the traces.
std::vector<RankRange> common_ranges(const Scope& scope, const std::vector<const Trace*>& traces);

/// The calls of one rank of each range in `iteration`; std::nullopt if the trace does not have the rank. Axes
/// are those of the members on `mesh`, if there is one.
std::vector<RankVolumes> volumes_per_range(const Trace& trace, const std::vector<RankRange>& ranges,
                                           Iteration iteration, const CompareOptions& options,
                                           const std::optional<Mesh>& mesh);

}  // namespace commlens
