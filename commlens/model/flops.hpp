#pragma once
#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Floating-point operations of one micro-batch over all ranks of one replica, forward and backward.
/// 72 b s L h^2 (1 + s/(6h) + V/(12 L h)); with full recompute 96 b s L h^2 (1 + s/(6h) + V/(16 L h)).
/// Source: Narayanan et al., arXiv 2104.04473, appendix. Other families count their own matrix products the
/// same way.
Flops micro_batch_flops(const Job& job);

/// Per rank and iteration: all micro-batches, divided over tp * pp.
Flops iteration_flops_per_rank(const Job& job);

}  // namespace commlens
