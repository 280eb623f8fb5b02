#include "commlens/engine/adamw.hpp"

#include <cmath>

#include "commlens/base/check.hpp"

namespace commlens::engine {
namespace {

constexpr std::int64_t k_grain = 1 << 16;  // elements a thread takes at least

void update_on_device(const AdamwStep& step, const torch::Tensor& gradient, const torch::Tensor& values,
                      const torch::Tensor& first_moment, const torch::Tensor& second_moment) {
  const torch::Tensor scaled = step.gradient_scale == 1 ? gradient : gradient * step.gradient_scale;
  values.mul_(1.0 - step.rate * step.weight_decay);
  first_moment.lerp_(scaled, 1.0 - step.beta1);
  second_moment.mul_(step.beta2).addcmul_(scaled, scaled, 1.0 - step.beta2);
  const torch::Tensor denominator = second_moment.sqrt().div_(std::sqrt(step.correction2)).add_(step.epsilon);
  values.addcdiv_(first_moment, denominator, -step.rate / step.correction1);
}

}  // namespace

void adamw(const AdamwStep& step, const torch::Tensor& gradient, const torch::Tensor& values,
           const torch::Tensor& first_moment, const torch::Tensor& second_moment) {
  for (const torch::Tensor* tensor : {&gradient, &values, &first_moment, &second_moment}) {
    COMMLENS_CHECK(tensor->is_contiguous() && tensor->numel() == values.numel() &&
                       tensor->scalar_type() == torch::kFloat32,
                   "the optimizer's arrays are fp32 of one size");
  }
  if (!values.is_cpu()) {
    update_on_device(step, gradient, values, first_moment, second_moment);
    return;
  }
  const AdamwArrays arrays{gradient.data_ptr<float>(), values.data_ptr<float>(),
                           first_moment.data_ptr<float>(), second_moment.data_ptr<float>()};
  at::parallel_for(0, values.numel(), k_grain,
                   [&](std::int64_t begin, std::int64_t end) { adamw_update(step, arrays, begin, end); });
}

}  // namespace commlens::engine
