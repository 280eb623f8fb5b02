#pragma once
#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// What pretrain() sends ahead of the first iteration (training/training.py, in its order); of a loop over
/// the library alone what models and optimizers send.
void write_start(const StageContext& stage);

}  // namespace commlens::megatron
