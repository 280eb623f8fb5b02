#include "commlens/comm/group.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

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

constexpr std::string_view k_communicator_prefix = "0x";
constexpr std::size_t k_communicator_digits = 16;

/// FNV-1a, its bits mixed as splitmix64 does: http://www.isthe.com/chongo/tech/comp/fnv,
/// https://prng.di.unimi.it/splitmix64.c.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31);
}

}  // namespace

CommunicatorId communicator_named(std::string_view name) {
  if (name.empty()) {
    return k_no_communicator;
  }
  if (const std::optional<CommunicatorId> written = communicator_from(name)) {
    return *written;
  }
  const std::uint64_t hash = hash_of(name);
  return CommunicatorId{hash == 0 ? 1 : hash};
}

std::string text_of(CommunicatorId communicator) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(k_communicator_prefix);
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += digits[static_cast<std::uint64_t>(communicator) >> shift & 0xf];
  }
  return text;
}

std::optional<CommunicatorId> communicator_from(std::string_view text) {
  if (text.size() != k_communicator_prefix.size() + k_communicator_digits ||
      !text.starts_with(k_communicator_prefix)) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + k_communicator_prefix.size(), end, value, 16);
  if (error != std::errc{} || stopped != end || value == 0) {
    return std::nullopt;
  }
  return CommunicatorId{value};
}

CommunicatorId world_communicator() { return communicator_named("MPI_COMM_WORLD"); }

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
    entries_.push_back({.pattern = pattern, .members = {}, .name = {}});
  }
  return found->second;
}

GroupId GroupTable::intern(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator) {
  std::map<CommunicatorId, GroupId>& alike = by_members_[{axis, members}];
  const auto [found, added] =
      alike.try_emplace(communicator, GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({.pattern = GroupPattern{.axis = axis},
                        .members = members,
                        .is_explicit = true,
                        .name = {},
                        .communicator = communicator,
                        .ordinal = static_cast<std::int64_t>(alike.size())});
  }
  return found->second;
}

GroupId GroupTable::intern_hidden(std::int64_t size, std::string_view name, Axis axis) {
  COMMLENS_CHECK(size >= 1, "a group has members");
  const auto [found, added] = by_name_.try_emplace({axis, size, std::string(name)},
                                                   GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({.pattern = GroupPattern{.axis = axis},
                        .members = {},
                        .is_explicit = true,
                        .hidden = size,
                        .name = std::string(name)});
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

CommunicatorId GroupTable::communicator(GroupId group) const {
  return entries_.at(static_cast<std::size_t>(group)).communicator;
}

std::int64_t GroupTable::ordinal(GroupId group) const {
  return entries_.at(static_cast<std::size_t>(group)).ordinal;
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
