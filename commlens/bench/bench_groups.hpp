#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/comm/mesh.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// Groups of one size without a common rank, which make their calls at the same time.
struct GroupSet {
  std::string name;  // "world", "pairs", or the axis
  std::vector<std::vector<std::int64_t>> groups;

  std::int64_t size() const { return groups.empty() ? 0 : static_cast<std::int64_t>(groups.front().size()); }
  friend auto operator<=>(const GroupSet&, const GroupSet&) = default;
};

GroupSet world_groups(std::int64_t ranks);
/// Ranks 0 and 1, 2 and 3, …; a last rank without a partner has none.
GroupSet pair_groups(std::int64_t ranks);
/// All groups along an axis. Fails where the mesh has no such axis.
Result<GroupSet> axis_groups(const Mesh& mesh, std::string_view axis);

/// Those of the groups that have no rank in common with an earlier one.
std::vector<std::vector<std::int64_t>> apart(std::vector<std::vector<std::int64_t>> groups);

/// The communicator of this rank's group; null where it is in none. Collective over `world`.
std::unique_ptr<Communicator> communicator_of(Communicator& world, const GroupSet& set);

}  // namespace commlens::bench
