#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/comm/axis.hpp"
#include "commlens/comm/rank_range.hpp"

namespace commlens {

/// Ranks are 0 … k_max_ranks - 1 in every mesh and every file; more is assumed to be a broken file.
constexpr std::int64_t k_max_ranks = std::int64_t{1} << 24;
constexpr std::size_t k_most_axes = 16;  // of a view
constexpr std::size_t k_most_views = 8;  // of a mesh

struct MeshAxis {
  Axis axis;
  std::int64_t size = 1;
  friend auto operator<=>(const MeshAxis&, const MeshAxis&) = default;
};

struct AxisPosition {
  Axis axis;
  std::int64_t position = 0;
};

/// One way to number ranks by their positions along named axes, slowest axis first:
/// rank = (…(position_0 * size_1 + position_1) * size_2 + …) + position_last.
class MeshView {
 public:
  /// Fails on an axis that is named twice, on sizes below 1, and on more than k_most_axes axes or
  /// k_max_ranks.
  static Result<MeshView> of(std::string_view name, std::vector<MeshAxis> slowest_first);

  const std::string& name() const { return name_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  std::int64_t ranks() const { return ranks_; }
  /// Where in axes() it is; nullopt where the view has no such axis.
  std::optional<std::size_t> find(const Axis& axis) const;
  /// The stride of an axis: the difference of the ranks of two neighbours, the product of the sizes of all
  /// faster axes.
  std::int64_t stride(std::size_t axis) const { return strides_.at(axis); }
  std::int64_t position(Rank rank, std::size_t axis) const {
    return rank.value / strides_.at(axis) % axes_.at(axis).size;
  }
  /// The positions of a rank along all axes, slowest first, and the rank at such positions.
  std::vector<std::int64_t> coordinates(Rank rank) const;
  Rank rank(std::span<const std::int64_t> coordinates) const;
  friend auto operator<=>(const MeshView&, const MeshView&) = default;

 private:
  std::string name_;  // as that of an axis
  std::vector<MeshAxis> axes_;
  std::vector<std::int64_t> strides_;
  std::int64_t ranks_ = 1;
};

/// The ranks of a job on named axes. The first view, "dense", is how the job numbers its ranks; others fold
/// the same ranks another way, as frameworks do for experts: Megatron's expert groups (tp-ep-dp-pp beside
/// tp-cp-dp-pp), PyTorch's dp_shard split in dp_shard_mod_ep and dp_shard_in_ep.
class Mesh {
 public:
  Mesh();  // one rank, no axis
  /// For sizes in our own code; aborts where of() fails.
  Mesh(std::initializer_list<MeshAxis> slowest_first);
  /// Fails as MeshView::of.
  static Result<Mesh> of(std::vector<MeshAxis> slowest_first);

  /// Adds another way to number the same ranks. Fails as MeshView::of, on a name that is there, on a product
  /// of sizes that is not ranks(), and on more than k_most_views views.
  Result<void> add_view(std::string_view name, std::vector<MeshAxis> slowest_first);

  std::int64_t ranks() const { return views_.front().ranks(); }
  const std::vector<MeshView>& views() const { return views_; }
  const MeshView& dense() const { return views_.front(); }
  std::optional<std::size_t> find_view(std::string_view name) const;
  /// The first view that has the axis.
  std::optional<std::size_t> view_with(const Axis& axis) const;

  // Along an axis of the first view that has it; aborts if none has it.
  std::int64_t size(const Axis& axis) const;
  std::int64_t position(Rank rank, const Axis& axis) const;
  /// The rank at these positions of the dense view, and at position 0 along its other axes.
  Rank rank_at(std::initializer_list<AxisPosition> positions) const;
  /// The ranks whose position along the axis is `first` to `last`.
  RankRange range(const Axis& axis, std::int64_t first, std::int64_t last) const;
  friend auto operator<=>(const Mesh&, const Mesh&) = default;

 private:
  const MeshView& view_of(const Axis& axis) const;

  std::vector<MeshView> views_;
};

constexpr std::string_view k_dense_view = "dense";

/// The axes of an order as Megatron's --order writes it, fastest first: "tp-cp-ep-dp-pp". Fails on what is no
/// name of an axis, and on one twice.
Result<std::vector<Axis>> axes_in_order(std::string_view order);

}  // namespace commlens
