#include "commlens/comm/group.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

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
      return span.step;
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

namespace {

Result<void> check_span(const Span& span, const MeshAxis& axis) {
  const bool is_stepped = span.shape == Span::Shape::block || span.shape == Span::Shape::stride;
  if (is_stepped && (span.step < 1 || axis.size % span.step != 0)) {
    return failure(fmt::format("a step of {} does not divide the {} positions along {}", span.step, axis.size,
                               name_of(axis.axis)));
  }
  return {};
}

tl::unexpected<Error> no_such_axis(const Axis& axis, std::string_view where) {
  return failure(fmt::format("there is no axis {} in {}", name_of(axis), where));
}

/// The spans in the order of the axes of the view, own positions dropped.
Result<std::vector<AxisSpan>> checked_spans(const MeshView& view, const std::vector<AxisSpan>& spans) {
  std::vector<const Span*> by_axis(view.axes().size(), nullptr);
  for (const AxisSpan& wanted : spans) {
    const std::optional<std::size_t> at = view.find(wanted.axis);
    if (!at) {
      return no_such_axis(wanted.axis, fmt::format("the view {} of the mesh", view.name()));
    }
    if (by_axis[*at] != nullptr) {
      return failure(fmt::format("the axis {} is in the pattern twice", name_of(wanted.axis)));
    }
    if (const Result<void> fits = check_span(wanted.span, view.axes()[*at]); !fits) {
      return tl::unexpected(fits.error());
    }
    by_axis[*at] = &wanted.span;
  }
  std::vector<AxisSpan> result;
  for (std::size_t at = 0; at < by_axis.size(); ++at) {
    const MeshAxis& axis = view.axes()[at];
    if (by_axis[at] != nullptr && by_axis[at]->shape != Span::Shape::own && axis.size > 1) {
      result.push_back({axis.axis, *by_axis[at]});
    }
  }
  return result;
}

}  // namespace

Result<GroupPattern> checked(const Mesh& mesh, GroupPattern pattern) {
  if (pattern.view >= mesh.views().size()) {
    return failure(
        fmt::format("the mesh has {} views, none with number {}", mesh.views().size(), pattern.view));
  }
  const MeshView& view = mesh.views()[pattern.view];
  if (pattern.shape != GroupPattern::Shape::mesh) {
    const std::optional<std::size_t> along = view.find(pattern.along);
    if (!along) {
      return no_such_axis(pattern.along, fmt::format("the view {} of the mesh", view.name()));
    }
    pattern.spans.clear();
    pattern.axis = view.axes()[*along].size == 1 ? Axis::self : pattern.axis;
    return pattern;
  }
  pattern.along = Axis::unknown;
  Result<std::vector<AxisSpan>> spans = checked_spans(view, pattern.spans);
  if (!spans) {
    return tl::unexpected(spans.error());
  }
  pattern.spans = std::move(*spans);
  return pattern;
}

Result<GroupPattern> pattern_over(const Mesh& mesh, const Axis& axis, std::vector<AxisSpan> spans) {
  const std::vector<MeshView>& views = mesh.views();
  const auto found = std::find_if(views.begin(), views.end(), [&](const MeshView& view) {
    return std::all_of(spans.begin(), spans.end(),
                       [&](const AxisSpan& wanted) { return view.find(wanted.axis).has_value(); });
  });
  if (found == views.end()) {
    std::string axes;
    for (const AxisSpan& wanted : spans) {
      axes += fmt::format("{}{}", axes.empty() ? "" : ", ", name_of(wanted.axis));
    }
    return failure(fmt::format("no view of the mesh has the axes {}", axes));
  }
  return checked(mesh, {.axis = axis,
                        .spans = std::move(spans),
                        .along = {},
                        .view = static_cast<std::size_t>(found - views.begin())});
}

Result<GroupPattern> neighbour_pattern(const Mesh& mesh, const Axis& axis, GroupPattern::Shape shape) {
  const std::optional<std::size_t> view = mesh.view_with(axis);
  if (!view) {
    return no_such_axis(axis, "the mesh");
  }
  return checked(mesh, {.shape = shape, .axis = axis, .spans = {}, .along = axis, .view = *view});
}

namespace {

std::int64_t size_on(const Mesh& mesh, const GroupPattern& pattern) {
  const MeshView& view = mesh.views()[pattern.view];
  if (pattern.shape != GroupPattern::Shape::mesh) {
    return 2;
  }
  std::int64_t size = 1;
  for (const AxisSpan& wanted : pattern.spans) {
    size *= span_size(wanted.span, view.axes()[*view.find(wanted.axis)].size);
  }
  return size;
}

/// [self, neighbour] or [neighbour, self]; on an axis of size 1 a rank is its own neighbour.
std::vector<Rank> pair_of(const MeshView& view, const GroupPattern& pattern, Rank self) {
  using Shape = GroupPattern::Shape;
  const std::size_t axis = *view.find(pattern.along);
  const std::int64_t size = view.axes()[axis].size;
  const std::int64_t own = view.position(self, axis);
  const bool is_next = pattern.shape == Shape::to_next || pattern.shape == Shape::from_next;
  const std::int64_t other = (own + (is_next ? 1 : size - 1)) % size;
  const Rank neighbour{self.value + (other - own) * view.stride(axis)};
  const bool is_sent = pattern.shape == Shape::to_next || pattern.shape == Shape::to_previous;
  return is_sent ? std::vector{self, neighbour} : std::vector{neighbour, self};
}

}  // namespace

GroupId GroupTable::intern(const GroupPattern& pattern) {
  COMMLENS_CHECK(mesh_.has_value(), "a pattern means something on a mesh only");
  Result<GroupPattern> known = checked(*mesh_, pattern);
  COMMLENS_CHECK(known.has_value(), "a pattern runs along axes of its mesh");
  const auto [found, added] =
      by_pattern_.try_emplace(std::move(*known), GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back(
        {.pattern = found->first, .members = {}, .name = {}, .size = size_on(*mesh_, found->first)});
  }
  return found->second;
}

GroupId GroupTable::intern(const std::vector<Rank>& members, const Axis& axis, CommunicatorId communicator) {
  std::map<CommunicatorId, GroupId>& alike = by_members_[{axis, members}];
  const auto [found, added] =
      alike.try_emplace(communicator, GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({.pattern = GroupPattern{.axis = axis, .spans = {}, .along = {}},
                        .members = members,
                        .is_explicit = true,
                        .name = {},
                        .communicator = communicator,
                        .ordinal = static_cast<std::int64_t>(alike.size()),
                        .size = static_cast<std::int64_t>(members.size())});
  }
  return found->second;
}

GroupId GroupTable::intern_hidden(std::int64_t size, std::string_view name, const Axis& axis) {
  COMMLENS_CHECK(size >= 1, "a group has members");
  const auto [found, added] = by_name_.try_emplace({axis, size, std::string(name)},
                                                   GroupId{static_cast<std::uint32_t>(entries_.size())});
  if (added) {
    entries_.push_back({.pattern = GroupPattern{.axis = axis, .spans = {}, .along = {}},
                        .members = {},
                        .is_explicit = true,
                        .name = std::string(name),
                        .size = size});
  }
  return found->second;
}

std::vector<Rank> GroupTable::members_of(const GroupPattern& pattern, Rank self) const {
  const MeshView& view = mesh_->views()[pattern.view];
  if (pattern.shape != GroupPattern::Shape::mesh) {
    return pair_of(view, pattern, self);
  }
  std::vector<Rank> result = {self};
  for (const AxisSpan& wanted : pattern.spans) {  // the slowest axis first, so that they ascend
    const std::size_t axis = *view.find(wanted.axis);
    const std::int64_t own = view.position(self, axis);
    const std::vector<std::int64_t> at = positions(wanted.span, own, view.axes()[axis].size);
    std::vector<Rank> wider;
    wider.reserve(result.size() * at.size());
    for (const Rank rank : result) {
      for (const std::int64_t position : at) {
        wider.push_back(Rank{rank.value + (position - own) * view.stride(axis)});
      }
    }
    result = std::move(wider);
  }
  return result;
}

std::vector<Rank> GroupTable::members(GroupId group, Rank self) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  return entry.is_explicit ? entry.members : members_of(entry.pattern, self);
}

std::int64_t GroupTable::size(GroupId group) const {
  return entries_.at(static_cast<std::size_t>(group)).size;
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

const Axis& GroupTable::axis(GroupId group) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  return entry.size == 1 ? Axis::self : entry.pattern.axis;
}

std::int64_t GroupTable::members_on_node(GroupId group, Rank self, std::int64_t ranks_per_node) const {
  const std::vector<Rank> ranks = members(group, self);
  return std::count_if(ranks.begin(), ranks.end(),
                       [&](Rank rank) { return rank.value / ranks_per_node == self.value / ranks_per_node; });
}

const GroupPattern* GroupTable::pattern(GroupId group) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(group));
  return entry.is_explicit ? nullptr : &entry.pattern;
}

}  // namespace commlens
