#include "commlens/engine/layers/attention.hpp"

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/engine/tensor_comm.hpp"

namespace commlens::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Turns queries and keys, parts[0] and parts[1], in place; by the opposite angle with `direction` -1.
///   parts  [3, batch, heads, sequence, head_dim], of any strides
void rotate(const torch::Tensor& parts, const torch::Tensor& cos, const torch::Tensor& sin,
            double direction) {
  const std::int64_t half = cos.size(1);
  const torch::Tensor turning = parts.narrow(0, 0, 2);
  const torch::Tensor first = turning.narrow(4, 0, half);
  const torch::Tensor second = turning.narrow(4, half, half);
  const torch::Tensor turned = (first * cos).addcmul_(second, sin, -direction);
  second.mul_(cos).addcmul_(first, sin, direction);
  first.copy_(turned);
}

struct SplitHeads : torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const torch::Tensor& qkv, std::int64_t head_dim,
                               const torch::Tensor& cos, const torch::Tensor& sin) {
    context->saved_data["cos"] = cos;
    context->saved_data["sin"] = sin;
    const std::int64_t batch = qkv.size(0);
    const std::int64_t length = qkv.size(1);
    const std::int64_t heads = qkv.size(2) / (3 * head_dim);
    const torch::Tensor parts =
        qkv.view({batch, length, heads, 3, head_dim}).permute({3, 0, 2, 1, 4}).contiguous();
    if (cos.numel() > 0) {
      rotate(parts, cos, sin, 1.0);
    }
    return {parts[0], parts[1], parts[2]};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::int64_t batch = gradients[0].size(0);
    const std::int64_t heads = gradients[0].size(1);
    const std::int64_t length = gradients[0].size(2);
    const std::int64_t width = gradients[0].size(3);
    const torch::Tensor whole = torch::empty({batch, length, heads, 3, width}, gradients[0].options());
    const torch::Tensor parts = whole.permute({3, 0, 2, 1, 4});
    for (std::int64_t part = 0; part < 3; ++part) {
      parts[part].copy_(gradients[static_cast<std::size_t>(part)]);
    }
    const torch::Tensor cos = context->saved_data["cos"].toTensor();
    if (cos.numel() > 0) {
      rotate(parts, cos, context->saved_data["sin"].toTensor(), -1.0);
    }
    return {whole.view({batch, length, heads * 3 * width}), {}, {}, {}};
  }
};

/// [batch * heads, sequence, sequence]
torch::Tensor shares_of(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& bias,
                        double scale) {
  torch::Tensor scores = torch::baddbmm(bias, query, key.transpose(1, 2), 1.0, scale);
  return torch::_softmax_out(scores, scores, -1, false);
}

struct CoreAttention : torch::autograd::Function<CoreAttention> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, const torch::Tensor& bias, double scale,
                               bool selective) {
    const torch::Tensor shares = shares_of(query, key, bias, scale);
    context->save_for_backward({query, key, value, bias});
    context->saved_data["scale"] = scale;
    if (!selective) {
      context->saved_data["shares"] = shares;
    }
    return shares.bmm(value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    const torch::Tensor& gradient = gradients[0];
    const auto kept = context->saved_data.find("shares");
    const torch::Tensor shares = kept != context->saved_data.end()
                                     ? kept->second.toTensor()
                                     : shares_of(saved[0], saved[1], saved[3], scale);
    torch::Tensor of_scores = gradient.bmm(saved[2].transpose(1, 2));
    torch::_softmax_backward_data_out(of_scores, of_scores, shares, -1, shares.scalar_type());
    return {of_scores.bmm(saved[1]).mul_(scale),
            of_scores.transpose(1, 2).bmm(saved[0]).mul_(scale),
            shares.transpose(1, 2).bmm(gradient),
            {},
            {},
            {}};
  }
};

}  // namespace

Heads split_heads(const torch::Tensor& qkv, std::int64_t head_dim, const torch::Tensor& cos,
                  const torch::Tensor& sin) {
  // Autograd takes no undefined tensors as arguments; an empty one stands for no rotation.
  const torch::Tensor none = torch::empty({0}, qkv.options());
  const variable_list parts =
      SplitHeads::apply(qkv, head_dim, cos.defined() ? cos : none, cos.defined() ? sin : none);
  return {parts[0], parts[1], parts[2]};
}

torch::Tensor core_attention(const Heads& heads, const torch::Tensor& bias, double scale, bool selective) {
  const std::int64_t batch = heads.query.size(0);
  const torch::Tensor of_all = bias.size(0) == 1 ? bias : bias.repeat({batch, 1, 1});
  return CoreAttention::apply(heads.query.flatten(0, 1), heads.key.flatten(0, 1), heads.value.flatten(0, 1),
                              of_all, scale, selective)
      .view(heads.query.sizes());
}

#if COMMLENS_TORCH_AT_LEAST(2, 1)

torch::Tensor fused_attention(const Heads& heads, const torch::Tensor& bias, double scale) {
  return bias.defined()
             ? at::scaled_dot_product_attention(heads.query, heads.key, heads.value, bias.unsqueeze(0), 0.0,
                                                false, scale)
             : at::scaled_dot_product_attention(heads.query, heads.key, heads.value, {}, 0.0, true, scale);
}

Result<void> check_fused_attention(const AttentionShape& shape) {
  const auto options = torch::TensorOptions().dtype(scalar_type_of(shape.dtype)).device(shape.device);
  // LibTorch decides by shapes, so one row represents all.
  const bool has_gradient = at::isFloatingType(scalar_type_of(shape.dtype));
  const torch::Tensor heads = torch::empty({shape.head_dim}, options.requires_grad(has_gradient))
                                  .expand({shape.batch, shape.heads, shape.sequence, shape.head_dim});
  const torch::Tensor row = torch::empty({shape.sequence}, options);
  constexpr std::int64_t k_math = 0;  // sdp::SDPBackend::math: plain operations, which keep the scores
  const std::int64_t kernel =
      shape.has_bias
          ? at::_fused_sdp_choice(heads, heads, heads,
                                  row.expand({1, shape.heads, shape.sequence, shape.sequence}), 0.0, false)
          : at::_fused_sdp_choice(heads, heads, heads, {}, 0.0, true);
  if (kernel > k_math) {
    return {};
  }
  return failure(fmt::format("LibTorch {} has no fused attention for {} heads of width {}{} on {}",
                             TORCH_VERSION, name_of(shape.dtype), shape.head_dim,
                             shape.has_bias ? " with ALiBi" : "", shape.device.str()));
}

#else

torch::Tensor fused_attention(const Heads&, const torch::Tensor&, double) {
  COMMLENS_CHECK(false, "check_fused_attention refuses it");
  return {};
}

Result<void> check_fused_attention(const AttentionShape&) {
  return failure(fmt::format("LibTorch {} has no fused attention, 2.1 is the first that has", TORCH_VERSION));
}

#endif

}  // namespace commlens::engine
