#pragma once
#include "commlens/frameworks/megatron/parameter_shards.hpp"
#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// What pretrain() sends ahead of the first iteration (training/training.py, in its order); of a loop over
/// the library alone what models and optimizers send.
/// `shards` is null where no parameters are sharded.
void write_start(const StageContext& stage, ParameterShards* shards);

}  // namespace commlens::megatron
