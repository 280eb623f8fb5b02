#pragma once
#include "commlens/engine/adamw_kernel.hpp"
#include "commlens/engine/torch.hpp"

namespace commlens::engine {

/// Updates values and moments in place, in one pass over the memory on a CPU. All are contiguous fp32 of one
/// size.
void adamw(const AdamwStep& step, const torch::Tensor& gradient, const torch::Tensor& values,
           const torch::Tensor& first_moment, const torch::Tensor& second_moment);

}  // namespace commlens::engine
