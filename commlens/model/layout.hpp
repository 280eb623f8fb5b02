#pragma once
#include <cstdint>

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
  std::int64_t ep = 1;              // consecutive data ranks that share the experts
  bool replicated_tp = false;       // each tensor rank holds whole parameters all the same
  std::int64_t replicate = 1;       // ranks of a model-parallel axis that all hold the same parameters
  bool sequence_parallel = false;   // Megatron sequence parallelism, over the tensor group
  std::int64_t virtual_stages = 1;  // model chunks per pipeline stage (interleaved schedule)

  /// Ranks that a split tensor is divided over.
  std::int64_t splitting_ranks() const { return replicated_tp ? 1 : tp; }
  /// Fastest axis of the mesh: tensor ranks and replicas together.
  std::int64_t model_ranks() const { return tp * replicate; }
  Mesh mesh() const { return {pp, dp, tp * replicate}; }
};

/// Fills in dp and ranks, and refuses degrees that do not multiply to `ranks` or are not positive.
Result<ParallelLayout> resolved(ParallelLayout layout);

}  // namespace commlens
