#pragma once
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// What gradients are summed in (training/arguments.py:1183-1193).
DType gradient_dtype_of(const Job& job);

}  // namespace commlens::megatron
