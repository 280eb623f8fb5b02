#include "commlens/comm/mesh.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

Result<void> check_axes(const std::vector<MeshAxis>& axes) {
  if (axes.size() > k_most_axes) {
    return failure(fmt::format("a mesh has at most {} axes, not {}", k_most_axes, axes.size()));
  }
  std::int64_t ranks = 1;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    const auto& [axis, size] = axes[at];
    const bool is_twice = std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(at),
                                      [&](const MeshAxis& other) { return other.axis == axes[at].axis; });
    if (is_twice) {
      return failure(fmt::format("the axis {} is in the mesh twice", name_of(axis)));
    }
    if (size < 1 || size > k_max_ranks / ranks) {
      return failure(
          fmt::format("the size of axis {} is {}; it must be 1 to {}, since a mesh has at most {} ranks",
                      name_of(axis), size, k_max_ranks / ranks, k_max_ranks));
    }
    ranks *= size;
  }
  return {};
}

}  // namespace

Result<MeshView> MeshView::of(std::string_view name, std::vector<MeshAxis> slowest_first) {
  if (!Axis::is_name(name)) {
    return failure(fmt::format("\"{}\" is no name of a view; use lowercase letters, digits and _, at most {}",
                               name.substr(0, 40), Axis::k_longest));
  }
  if (const Result<void> fits = check_axes(slowest_first); !fits) {
    return tl::unexpected(fits.error());
  }
  MeshView view;
  view.name_ = name;
  view.axes_ = std::move(slowest_first);
  view.strides_.resize(view.axes_.size());
  for (std::size_t at = view.axes_.size(); at-- > 0;) {
    view.strides_[at] = view.ranks_;
    view.ranks_ *= view.axes_[at].size;
  }
  return view;
}

std::optional<std::size_t> MeshView::find(const Axis& axis) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& known) { return known.axis == axis; });
  return found == axes_.end() ? std::nullopt : std::optional<std::size_t>(found - axes_.begin());
}

std::vector<std::int64_t> MeshView::coordinates(Rank rank) const {
  std::vector<std::int64_t> result;
  for (std::size_t at = 0; at < axes_.size(); ++at) {
    result.push_back(position(rank, at));
  }
  return result;
}

Rank MeshView::rank(std::span<const std::int64_t> coordinates) const {
  COMMLENS_CHECK(coordinates.size() == axes_.size(), "a rank has one position along every axis");
  Rank rank;
  for (std::size_t at = 0; at < axes_.size(); ++at) {
    rank.value += coordinates[at] * strides_[at];
  }
  return rank;
}

Mesh::Mesh() : views_{MeshView::of(k_dense_view, {}).value()} {}

Mesh::Mesh(std::initializer_list<MeshAxis> slowest_first) : Mesh(Mesh::of(slowest_first).value()) {}

Result<Mesh> Mesh::of(std::vector<MeshAxis> slowest_first) {
  return MeshView::of(k_dense_view, std::move(slowest_first)).map([](MeshView view) {
    Mesh mesh;
    mesh.views_.front() = std::move(view);
    return mesh;
  });
}

Result<void> Mesh::add_view(std::string_view name, std::vector<MeshAxis> slowest_first) {
  Result<MeshView> view = MeshView::of(name, std::move(slowest_first));
  if (!view) {
    return tl::unexpected(view.error());
  }
  if (find_view(name)) {
    return failure(fmt::format("the view {} is in the mesh twice", name));
  }
  if (views_.size() >= k_most_views) {
    return failure(fmt::format("a mesh has at most {} views", k_most_views));
  }
  if (view->ranks() != ranks()) {
    return failure(fmt::format("the view {} has {} ranks, the mesh has {}", name, view->ranks(), ranks()));
  }
  views_.push_back(std::move(*view));
  return {};
}

std::optional<std::size_t> Mesh::find_view(std::string_view name) const {
  const auto found =
      std::find_if(views_.begin(), views_.end(), [&](const MeshView& view) { return view.name() == name; });
  return found == views_.end() ? std::nullopt : std::optional<std::size_t>(found - views_.begin());
}

std::optional<std::size_t> Mesh::view_with(const Axis& axis) const {
  const auto found = std::find_if(views_.begin(), views_.end(),
                                  [&](const MeshView& view) { return view.find(axis).has_value(); });
  return found == views_.end() ? std::nullopt : std::optional<std::size_t>(found - views_.begin());
}

const MeshView& Mesh::view_of(const Axis& axis) const {
  const std::optional<std::size_t> view = view_with(axis);
  COMMLENS_CHECK(view.has_value(), "the mesh has the axis");
  return views_[*view];
}

std::int64_t Mesh::size(const Axis& axis) const {
  const MeshView& view = view_of(axis);
  return view.axes()[*view.find(axis)].size;
}

std::int64_t Mesh::position(Rank rank, const Axis& axis) const {
  const MeshView& view = view_of(axis);
  return view.position(rank, *view.find(axis));
}

Rank Mesh::rank_at(std::initializer_list<AxisPosition> positions) const {
  Rank rank;
  for (const AxisPosition& wanted : positions) {
    const std::optional<std::size_t> axis = dense().find(wanted.axis);
    COMMLENS_CHECK(axis.has_value(), "the mesh has the axis");
    rank.value += wanted.position * dense().stride(*axis);
  }
  return rank;
}

RankRange Mesh::range(const Axis& axis, std::int64_t first, std::int64_t last) const {
  const MeshView& view = view_of(axis);
  const std::size_t at = *view.find(axis);
  const std::int64_t size = view.axes()[at].size;
  COMMLENS_CHECK(0 <= first && first <= last && last < size, "these are positions along the axis");
  const std::int64_t stride = view.stride(at);
  const std::int64_t every = stride * size;
  const std::int64_t block = (last - first + 1) * stride;
  const std::int64_t last_rank = ranks() - every + (last + 1) * stride - 1;
  const bool is_gapless = every == ranks() || block == every;
  return is_gapless ? RankRange{Rank{first * stride}, Rank{last_rank}}
                    : RankRange{Rank{first * stride}, Rank{last_rank}, block, every};
}

Result<std::vector<Axis>> axes_in_order(std::string_view order) {
  std::vector<Axis> axes;
  for (std::size_t start = 0; start <= order.size();) {
    const std::size_t end = std::min(order.find('-', start), order.size());
    const std::string_view name = order.substr(start, end - start);
    const std::optional<Axis> axis = Axis::from(name);
    if (!axis) {
      return failure(
          fmt::format("'{}' in the order '{}' is no axis; write axes fastest first, such as tp-cp-ep-dp-pp",
                      name.substr(0, 40), order.substr(0, 200)));
    }
    if (std::find(axes.begin(), axes.end(), *axis) != axes.end()) {
      return failure(fmt::format("the order '{}' names {} twice", order.substr(0, 200), name));
    }
    axes.push_back(*axis);
    start = end + 1;
  }
  return axes;
}

}  // namespace commlens
