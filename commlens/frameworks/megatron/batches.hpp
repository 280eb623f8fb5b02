#pragma once
#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// What a forward pass of a chunk takes from the data loader: broadcasts to the tensor ranks, also of one.
/// Source: core/utils.py:2119 get_batch_on_this_tp_rank.
void write_batch(const StageContext& stage, std::size_t chunk);

}  // namespace commlens::megatron
