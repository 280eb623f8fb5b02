#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/comm/group.hpp"

namespace commlens {

/// How ranks share the work. All degrees >= 1; dp = 0 means "what remains of `ranks`".
struct ParallelLayout {
  std::int64_t ranks = 0;  // 0: the product of the degrees
  std::int64_t dp = 0;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;  // consecutive data ranks that share the experts
  /// ep counts tensor, then context, then data ranks, the fastest first, instead of data ranks alone
  /// (torchtitan); `expert_replicas` of the data ranks stay outside of it and of edp.
  bool folds_experts = false;
  std::int64_t expert_replicas = 1;
  /// Tensor ranks that split each of the folded experts, faster than ep (axis etp); 0: experts are whole, and
  /// there is no such axis.
  std::int64_t expert_tp = 0;
  bool replicated_tp = false;       // each tensor rank holds whole parameters all the same
  std::int64_t replicate = 1;       // ranks of a model-parallel axis that all hold the same parameters
  bool sequence_parallel = false;   // Megatron sequence parallelism, over the tensor group
  std::int64_t virtual_stages = 1;  // model chunks per pipeline stage (interleaved schedule)
  /// How ranks are numbered, as Megatron's --order writes it, the fastest axis first; the default is that of
  /// DeepSpeed (runtime/pipe/topology.py PipeModelDataParallelTopology) and Megatron
  /// (core/parallel_state.py). Axes that it lacks must have a degree of 1.
  std::string order = std::string(k_default_order);
  std::vector<MeshAxis> more_axes;  // axes of a framework's own, which `order` names too

  /// Ranks that a split tensor is divided over.
  std::int64_t splitting_ranks() const { return replicated_tp ? 1 : tp; }
  /// The size of axis tp of the mesh: tensor ranks and replicas together, one model-parallel group.
  std::int64_t model_ranks() const { return tp * replicate; }
  /// The ranks of a resolved layout. The view "dense" has the axes of `order` without ep; the view "expert"
  /// has ep too, and edp = dp / ep instead of dp; where experts are folded it has the axes dp_replicate and
  /// edp in place of dp, and ep [and etp] instead of cp and tp.
  Mesh mesh() const;

  /// Whether ranks are numbered as the default order numbers them: axes of size 1 do not matter. Of a
  /// resolved layout.
  bool has_default_order() const;

  static constexpr std::string_view k_default_order = "tp-cp-ep-dp-pp";
};

constexpr std::string_view k_expert_view = "expert";

/// Fills in dp and ranks, and refuses degrees that do not multiply to `ranks` or are not positive, and orders
/// that lack an axis or part the expert ranks from the data ranks that they are of.
Result<ParallelLayout> resolved(ParallelLayout layout);

}  // namespace commlens
