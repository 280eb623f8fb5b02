#include "commlens/model/layout.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

using Degree = std::pair<std::string_view, std::int64_t>;

/// The product, or std::nullopt if it is more ranks than any machine has.
std::optional<std::int64_t> product(std::span<const Degree> degrees) {
  std::int64_t ranks = 1;
  for (const auto& [name, degree] : degrees) {
    if (__builtin_mul_overflow(ranks, degree, &ranks) || ranks > k_max_ranks) {
      return std::nullopt;
    }
  }
  return ranks;
}

std::string spelled(std::span<const Degree> degrees) {
  std::string text;
  for (const auto& [name, degree] : degrees) {
    if (degree != 1) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, degree);
    }
  }
  return text.empty() ? "one rank" : text;
}

/// The same followed by the product, unless it is the only degree.
std::string with_product(std::span<const Degree> degrees, std::int64_t ranks) {
  const std::string text = spelled(degrees);
  return text.find(" x ") == std::string::npos ? text : fmt::format("{} = {}", text, ranks);
}

bool contains(const std::vector<Axis>& axes, const Axis& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// The degrees of the layout along the axes of the dense view; those that the order lacks are skipped.
std::vector<MeshAxis> dense_axes(const ParallelLayout& layout, const std::vector<Axis>& order) {
  std::vector<MeshAxis> sizes = layout.more_axes;
  sizes.insert(sizes.end(), {{Axis::tp, layout.model_ranks()},
                             {Axis::cp, layout.cp},
                             {Axis::dp, layout.dp},
                             {Axis::pp, layout.pp}});
  std::vector<MeshAxis> axes;
  for (const MeshAxis& sized : sizes) {  // as Megatron, which numbers axes that the order lacks slowest
    if (!contains(order, sized.axis)) {
      axes.push_back(sized);
    }
  }
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    const auto found =
        std::find_if(sizes.begin(), sizes.end(), [&](const MeshAxis& sized) { return sized.axis == *axis; });
    if (found != sizes.end()) {
      axes.push_back(*found);
    }
  }
  return axes;
}

/// Folded ranks that hold all experts together.
std::int64_t experts_in(const ParallelLayout& layout) {
  return layout.ep * std::max<std::int64_t>(layout.expert_tp, 1);
}

/// The same with ep where the order has it, or else right inside dp, and edp instead of dp.
std::vector<MeshAxis> expert_axes(const ParallelLayout& layout, const std::vector<Axis>& order) {
  std::vector<MeshAxis> axes = dense_axes(layout, order);
  if (layout.folds_experts) {
    const std::int64_t inner = layout.dp / layout.expert_replicas * layout.cp * layout.tp;
    std::erase_if(axes, [](const MeshAxis& axis) { return axis.axis == Axis::tp || axis.axis == Axis::cp; });
    const auto data =
        std::find_if(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.axis == Axis::dp; });
    *data = {Axis::edp, inner / experts_in(layout)};
    axes.insert(data, {Axis("dp_replicate"), layout.expert_replicas});
    axes.push_back({Axis::ep, layout.ep});
    if (layout.expert_tp > 0) {
      axes.push_back({Axis("etp"), layout.expert_tp});
    }
    return axes;
  }
  const auto place_of = [&](const Axis& axis) {
    const auto found =
        std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& sized) { return sized.axis == axis; });
    return found - axes.begin();
  };
  axes[static_cast<std::size_t>(place_of(Axis::dp))] = {Axis::edp, layout.dp / layout.ep};
  const auto expert = std::find(order.begin(), order.end(), Axis::ep);
  const bool is_ordered = expert != order.end();
  auto place = is_ordered ? 0 : place_of(Axis::edp) + 1;
  for (auto slower = is_ordered ? expert + 1 : order.end(); slower != order.end() && place == 0; ++slower) {
    const auto at = place_of(*slower == Axis::dp ? Axis::edp : *slower);
    place = at == std::ssize(axes) ? 0 : at + 1;
  }
  axes.insert(axes.begin() + place, {Axis::ep, layout.ep});
  return axes;
}

/// What is wrong with the order and the axes of the framework's own.
Result<void> check_order(const ParallelLayout& layout) {
  const Result<std::vector<Axis>> order = axes_in_order(layout.order);
  if (!order) {
    return tl::unexpected(order.error());
  }
  constexpr std::array<Axis, 5> own = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};
  for (const MeshAxis& more : layout.more_axes) {
    if (std::find(own.begin(), own.end(), more.axis) != own.end() || more.axis == Axis::edp) {
      return failure(fmt::format("the degree of {} is given twice", name_of(more.axis)));
    }
  }
  for (const Axis& axis : *order) {
    const bool is_known = std::find(own.begin(), own.end(), axis) != own.end() ||
                          std::any_of(layout.more_axes.begin(), layout.more_axes.end(),
                                      [&](const MeshAxis& more) { return more.axis == axis; });
    if (!is_known) {
      return failure(fmt::format("the order {} names {}, of which the layout has no degree", layout.order,
                                 name_of(axis)));
    }
  }
  std::vector<MeshAxis> degrees = dense_axes(layout, {});
  degrees.push_back({Axis::ep, layout.ep});
  for (const MeshAxis& sized : degrees) {
    if (sized.size > 1 && !contains(*order, sized.axis)) {
      return failure(fmt::format("the order {} does not name the axis {} of size {}", layout.order,
                                 name_of(sized.axis), sized.size));
    }
  }
  return MeshView::of(k_dense_view, dense_axes(layout, *order)).map([](const MeshView&) {});
}

/// Expert groups are parts of data groups where nothing else is numbered between ep and dp.
Result<void> check_experts(const ParallelLayout& layout) {
  const Mesh mesh = layout.mesh();
  const MeshView& experts = mesh.views()[*mesh.find_view(k_expert_view)];
  const std::size_t data = *mesh.dense().find(Axis::dp);
  const std::size_t ep = *experts.find(Axis::ep);
  const std::size_t edp = *experts.find(Axis::edp);
  const bool splits_data = mesh.dense().stride(data) == experts.stride(ep) &&
                           (layout.dp == layout.ep || experts.stride(edp) == experts.stride(ep) * layout.ep);
  return layout.ep == 1 || layout.folds_experts || splits_data
             ? Result<void>{}
             : failure(
                   fmt::format("the order {} numbers other ranks between ep and dp; put ep right before dp",
                               layout.order));
}

}  // namespace

bool ParallelLayout::has_default_order() const {
  ParallelLayout usual = *this;
  usual.order = k_default_order;
  const auto divided = [](const ParallelLayout& layout) {
    std::vector<MeshAxis> axes;
    const Mesh mesh = layout.mesh();
    for (const MeshView& view : mesh.views()) {
      std::copy_if(view.axes().begin(), view.axes().end(), std::back_inserter(axes),
                   [](const MeshAxis& axis) { return axis.size > 1; });
    }
    return axes;
  };
  return more_axes.empty() && divided(*this) == divided(usual);
}

Mesh ParallelLayout::mesh() const {
  const std::vector<Axis> axes = axes_in_order(order).value();
  Mesh mesh = Mesh::of(dense_axes(*this, axes)).value();
  const bool is_added = mesh.add_view(k_expert_view, expert_axes(*this, axes)).has_value();
  COMMLENS_CHECK(is_added, "the layout is resolved: ep divides dp");
  return mesh;
}

Result<ParallelLayout> resolved(ParallelLayout layout) {
  const std::array<Degree, 7> positive = {{{"tp", layout.tp},
                                           {"pp", layout.pp},
                                           {"cp", layout.cp},
                                           {"ep", layout.ep},
                                           {"replicate", layout.replicate},
                                           {"virtual stages", layout.virtual_stages},
                                           {"ranks", layout.ranks == 0 ? 1 : layout.ranks}}};
  for (const auto& [name, degree] : positive) {
    if (degree < 1) {
      return failure(fmt::format("{} is {}; it must be at least 1", name, degree));
    }
  }
  if (layout.dp < 0) {
    return failure(fmt::format("dp is {}; it must be at least 1", layout.dp));
  }
  const bool dp_is_free = layout.dp == 0;
  std::vector<Degree> degrees = {{"tp", layout.tp},
                                 {"pp", layout.pp},
                                 {"cp", layout.cp},
                                 {"replicate", layout.replicate},
                                 {"dp", dp_is_free ? 1 : layout.dp}};
  for (const MeshAxis& more : layout.more_axes) {
    if (more.size < 1) {
      return failure(fmt::format("{} is {}; it must be at least 1", name_of(more.axis), more.size));
    }
    degrees.emplace_back(name_of(more.axis), more.size);
  }
  const std::optional<std::int64_t> ranks = product(degrees);
  if (!ranks) {
    return failure(
        fmt::format("{} is more than {} ranks; use smaller degrees", spelled(degrees), k_max_ranks));
  }
  if (layout.ranks > k_max_ranks) {
    return failure(fmt::format("ranks is {}; at most {} are supported", layout.ranks, k_max_ranks));
  }
  if (dp_is_free && layout.ranks != 0) {
    if (layout.ranks % *ranks != 0) {
      return failure(fmt::format("{} ranks are not divisible by {}; change --ranks, --tp or --pp",
                                 layout.ranks, with_product(degrees, *ranks)));
    }
    layout.dp = layout.ranks / *ranks;
  } else if (layout.ranks != 0 && layout.ranks != *ranks) {
    return failure(fmt::format("{} needs {} ranks, the job has {}; change --ranks, --dp, --tp or --pp",
                               spelled(degrees), *ranks, layout.ranks));
  } else {
    layout.dp = dp_is_free ? 1 : layout.dp;
    layout.ranks = *ranks;
  }
  if (layout.folds_experts) {
    const std::int64_t inner = layout.dp / layout.expert_replicas * layout.cp * layout.tp;
    if (layout.dp % layout.expert_replicas != 0) {
      return failure(fmt::format("dp {} is not divisible by its {} replicas; change --dp or --ranks",
                                 layout.dp, layout.expert_replicas));
    }
    if (inner % experts_in(layout) != 0) {
      return failure(
          fmt::format("dp x cp x tp of a replica, {}, is not divisible by {}; change --ep", inner,
                      spelled(std::array<Degree, 2>{{{"ep", layout.ep}, {"etp", layout.expert_tp}}})));
    }
  } else if (layout.dp % layout.ep != 0) {
    return failure(
        fmt::format("dp {} is not divisible by ep {}; change --dp, --ep or --ranks", layout.dp, layout.ep));
  }
  return check_order(layout).and_then([&] { return check_experts(layout); }).map([&] { return layout; });
}

}  // namespace commlens
