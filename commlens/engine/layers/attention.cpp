#include "commlens/engine/layers/attention.hpp"

namespace commlens::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor probabilities(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& bias,
                            double scale) {
  return torch::baddbmm(bias, query, key.transpose(1, 2), 1.0, scale).softmax(-1);
}

struct SelectiveAttention : torch::autograd::Function<SelectiveAttention> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, const torch::Tensor& bias, double scale) {
    context->save_for_backward({query, key, value, bias});
    context->saved_data["scale"] = scale;
    return probabilities(query, key, bias, scale).bmm(value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    const torch::Tensor& gradient = gradients[0];
    const torch::Tensor shares = probabilities(saved[0], saved[1], saved[3], scale);
    const torch::Tensor of_shares = gradient.bmm(saved[2].transpose(1, 2));
    const torch::Tensor of_scores =
        torch::_softmax_backward_data(of_shares, shares, -1, shares.scalar_type()).mul_(scale);
    return {of_scores.bmm(saved[1]),
            of_scores.transpose(1, 2).bmm(saved[0]),
            shares.transpose(1, 2).bmm(gradient),
            {},
            {}};
  }
};

}  // namespace

torch::Tensor core_attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                             const torch::Tensor& bias, double scale, bool selective) {
  return selective ? SelectiveAttention::apply(query, key, value, bias, scale)
                   : probabilities(query, key, bias, scale).bmm(value);
}

torch::Tensor rotated(const torch::Tensor& heads, const torch::Tensor& cos, const torch::Tensor& sin) {
  const std::int64_t width = cos.size(1);
  const torch::Tensor turning = heads.narrow(3, 0, width);
  const torch::Tensor halves =
      torch::cat({turning.narrow(3, width / 2, width / 2).neg(), turning.narrow(3, 0, width / 2)}, 3);
  const torch::Tensor turned = turning * cos + halves * sin;
  if (width == heads.size(3)) {
    return turned;
  }
  return torch::cat({turned, heads.narrow(3, width, heads.size(3) - width)}, 3);
}

}  // namespace commlens::engine
