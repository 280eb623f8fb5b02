#pragma once
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// What gradients are summed in (training/arguments.py:1183-1193).
DType gradient_dtype_of(const Job& job);

/// How many steps at the start surely overflow, and up to which one that depends on the model: fp16 begins
/// with a loss scale that the gradients do not take (core/optimizer/grad_scaler.py).
struct FirstOverflows {
  std::int64_t sure = 0;
  std::int64_t possible = 0;
};
FirstOverflows first_overflows(const Job& job);

}  // namespace commlens::megatron
