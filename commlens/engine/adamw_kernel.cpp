// Compiled with -fno-math-errno: a square root that sets errno cannot be vectorised.
#include "commlens/engine/adamw_kernel.hpp"

#include <cmath>

namespace commlens::engine {

void adamw_update(const AdamwStep& step, const AdamwArrays& arrays, std::int64_t begin, std::int64_t end) {
  const auto decay = static_cast<float>(1.0 - step.rate * step.weight_decay);
  const auto gradient_scale = static_cast<float>(step.gradient_scale);
  const auto first_share = static_cast<float>(1.0 - step.beta1);
  const auto second_share = static_cast<float>(1.0 - step.beta2);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto denominator_scale = static_cast<float>(1.0 / std::sqrt(step.correction2));
  const auto epsilon = static_cast<float>(step.epsilon);
  const auto rate = static_cast<float>(step.rate / step.correction1);
  const float* const __restrict__ gradients = arrays.gradient;
  float* const __restrict__ values = arrays.values;
  float* const __restrict__ first = arrays.first_moment;
  float* const __restrict__ second = arrays.second_moment;
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = gradients[i] * gradient_scale;
    const float mean = first[i] + first_share * (gradient - first[i]);
    const float square = second[i] * beta2 + second_share * gradient * gradient;
    first[i] = mean;
    second[i] = square;
    values[i] = values[i] * decay - rate * mean / (std::sqrt(square) * denominator_scale + epsilon);
  }
}

}  // namespace commlens::engine
