#pragma once
#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// Gradient reductions of ZeRO stages 1 and 2: all_reduces of buckets (not reduce_scatters) unless
/// use_multi_rank_bucket_allreduce or reduce_scatter is switched off.
void write_zero12_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary);

}  // namespace commlens::deepspeed
