#include "commlens/bench/bench_groups.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace commlens::bench {

GroupSet world_groups(std::int64_t ranks) {
  GroupSet set{"world", {{}}};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    set.groups.front().push_back(rank);
  }
  return set;
}

GroupSet pair_groups(std::int64_t ranks) {
  GroupSet set{"pairs", {}};
  for (std::int64_t rank = 0; rank + 1 < ranks; rank += 2) {
    set.groups.push_back({rank, rank + 1});
  }
  return set;
}

Result<GroupSet> axis_groups(const Mesh& mesh, std::string_view axis) {
  const std::optional<Axis> named = Axis::from(axis);
  const std::optional<std::size_t> view = named ? mesh.view_with(*named) : std::nullopt;
  if (!view) {
    std::string has;
    for (const MeshView& each : mesh.views()) {
      for (const MeshAxis& has_axis : each.axes()) {
        has += fmt::format("{}{}", has.empty() ? "" : ", ", has_axis.axis.name());
      }
    }
    return failure(fmt::format("the ranks have no axis '{}'; choose of world, pairs{}{}", axis,
                               has.empty() ? "" : ", ", has));
  }
  const MeshView& ranks = mesh.views().at(*view);
  const std::size_t place = *ranks.find(*named);
  GroupSet set{std::string(axis), {}};
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    if (ranks.position(Rank{rank}, place) != 0) {
      continue;
    }
    std::vector<std::int64_t>& group = set.groups.emplace_back();
    for (std::int64_t position = 0; position < ranks.axes().at(place).size; ++position) {
      group.push_back(rank + position * ranks.stride(place));
    }
  }
  return set;
}

std::vector<std::vector<std::int64_t>> apart(std::vector<std::vector<std::int64_t>> groups) {
  std::set<std::int64_t> taken;
  std::erase_if(groups, [&](const std::vector<std::int64_t>& group) {
    const bool meets_another =
        std::any_of(group.begin(), group.end(), [&](std::int64_t rank) { return taken.contains(rank); });
    if (!meets_another) {
      taken.insert(group.begin(), group.end());
    }
    return meets_another;
  });
  return groups;
}

std::unique_ptr<Communicator> communicator_of(Communicator& world, const GroupSet& set) {
  const std::int64_t own = world.rank().value;
  for (std::size_t color = 0; color < set.groups.size(); ++color) {
    const std::vector<std::int64_t>& group = set.groups[color];
    const auto place = std::find(group.begin(), group.end(), own);
    if (place != group.end()) {
      return world.split(static_cast<std::int64_t>(color), place - group.begin());
    }
  }
  return world.split(-1, 0);
}

}  // namespace commlens::bench
