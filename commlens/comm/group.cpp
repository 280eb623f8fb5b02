#include "commlens/comm/group.hpp"

#include <algorithm>
#include <array>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 11> k_axis_names = {"unknown", "dp",  "tp",    "sp",    "pp",  "cp",
                                                           "ep",      "edp", "model", "world", "self"};

/// Positions along one axis of `size` that belong to the group of the rank at `own`, ascending.
std::vector<std::int64_t> positions(const Span& span, std::int64_t own, std::int64_t size) {
  std::vector<std::int64_t> result;
  switch (span.shape) {
    case Span::Shape::own:
      return {own};
    case Span::Shape::all:
      for (std::int64_t at = 0; at < size; ++at) {
        result.push_back(at);
      }
      return result;
    case Span::Shape::block:
      for (std::int64_t at = own / span.step * span.step;
           at < std::min((own / span.step + 1) * span.step, size); ++at) {
        result.push_back(at);
      }
      return result;
    case Span::Shape::stride:
      for (std::int64_t at = own % span.step; at < size; at += span.step) {
        result.push_back(at);
      }
      return result;
    case Span::Shape::ends:
      return size == 1 ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, size - 1};
  }
  return result;
}

std::int64_t span_size(const Span& span, std::int64_t size) {
  switch (span.shape) {
    case Span::Shape::own:
      return 1;
    case Span::Shape::all:
      return size;
    case Span::Shape::block:
      return std::min(span.step, size);
    case Span::Shape::stride:
      return size / span.step;
    case Span::Shape::ends:
      return size == 1 ? 1 : 2;
  }
  return 1;
}

}  // namespace

std::string_view name_of(Axis axis) { return k_axis_names.at(static_cast<std::size_t>(axis)); }

Rank Mesh::rank(Coordinates where) const {
  return {(where.pipeline * data + where.data) * tensor + where.tensor};
}

Coordinates Mesh::coordinates(Rank rank) const {
  return {rank.value / (data * tensor), rank.value / tensor % data, rank.value % tensor};
}

GroupId GroupTable::intern(const GroupPattern& pattern) {
  COMMLENS_CHECK(has_mesh_, "a pattern means something on a mesh only");
  const auto [found, added] =
      by_pattern_.try_emplace(pattern, GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({pattern, {}, false, 0, {}});
  }
  return found->second;
}

GroupId GroupTable::intern(const std::vector<Rank>& members, Axis axis) {
  const auto [found, added] =
      by_members_.try_emplace({axis, members}, GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({GroupPattern{.axis = axis}, members, true, 0, {}});
  }
  return found->second;
}

GroupId GroupTable::intern_hidden(std::int64_t size, std::string_view name, Axis axis) {
  COMMLENS_CHECK(size >= 1, "a group has members");
  const auto [found, added] = by_name_.try_emplace({axis, size, std::string(name)},
                                                   GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({GroupPattern{.axis = axis}, {}, true, size, std::string(name)});
  }
  return found->second;
}

std::vector<Rank> GroupTable::members(GroupId group, Rank self) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  if (entry.is_explicit) {
    return entry.members;
  }
  const Coordinates own = mesh_.coordinates(self);
  const GroupPattern& pattern = entry.pattern;
  const auto stage = [&](std::int64_t offset) {
    return mesh_.rank({(own.pipeline + offset + mesh_.pipeline) % mesh_.pipeline, own.data, own.tensor});
  };
  switch (pattern.shape) {
    case GroupPattern::Shape::to_next:
      return {self, stage(1)};
    case GroupPattern::Shape::to_previous:
      return {self, stage(-1)};
    case GroupPattern::Shape::from_next:
      return {stage(1), self};
    case GroupPattern::Shape::from_previous:
      return {stage(-1), self};
    case GroupPattern::Shape::mesh:
      break;
  }
  std::vector<Rank> result;
  for (const std::int64_t p : positions(pattern.pipeline, own.pipeline, mesh_.pipeline)) {
    for (const std::int64_t d : positions(pattern.data, own.data, mesh_.data)) {
      for (const std::int64_t t : positions(pattern.tensor, own.tensor, mesh_.tensor)) {
        result.push_back(mesh_.rank({p, d, t}));
      }
    }
  }
  return result;
}

std::int64_t GroupTable::size(GroupId group) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  if (entry.is_explicit) {
    return entry.hidden > 0 ? entry.hidden : static_cast<std::int64_t>(entry.members.size());
  }
  if (entry.pattern.shape != GroupPattern::Shape::mesh) {
    return 2;
  }
  return span_size(entry.pattern.pipeline, mesh_.pipeline) * span_size(entry.pattern.data, mesh_.data) *
         span_size(entry.pattern.tensor, mesh_.tensor);
}

bool GroupTable::knows_members(GroupId group) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  return !entry.is_explicit || !entry.members.empty();
}

const std::string& GroupTable::name(GroupId group) const {
  return entries_.at(static_cast<std::size_t>(group)).name;
}

Axis GroupTable::axis(GroupId group) const {
  return size(group) == 1 ? Axis::self : entries_.at(static_cast<std::size_t>(group)).pattern.axis;
}

std::int64_t GroupTable::members_on_node(GroupId group, Rank self, std::int64_t ranks_per_node) const {
  const std::vector<Rank> ranks = members(group, self);
  return std::count_if(ranks.begin(), ranks.end(),
                       [&](Rank rank) { return rank.value / ranks_per_node == self.value / ranks_per_node; });
}

std::optional<GroupPattern> GroupTable::pattern(GroupId group) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  return entry.is_explicit ? std::nullopt : std::optional<GroupPattern>(entry.pattern);
}

}  // namespace commlens
