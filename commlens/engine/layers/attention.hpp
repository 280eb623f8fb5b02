#pragma once
#include "commlens/engine/torch.hpp"

namespace commlens::engine {

/// softmax(query key^T scale + bias) value.
///   query, key, value  [batch * heads, sequence, head_dim]
///   bias               [1, sequence, sequence], 0 where attention is allowed and -inf where not
///   selective          scores are not kept but computed again in backward (arXiv 2205.05198)
torch::Tensor core_attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                             const torch::Tensor& bias, double scale, bool selective);

/// Rotates the first cos.size(1) elements of each head. heads [batch, heads, sequence, head_dim]; cos, sin
/// [sequence, rotary dims]. Source: RoFormer, arXiv 2104.09864; halves paired as GPT-NeoX does.
torch::Tensor rotated(const torch::Tensor& heads, const torch::Tensor& cos, const torch::Tensor& sin);

}  // namespace commlens::engine
