#pragma once
#include <cstdint>

#include "commlens/base/dtype.hpp"
#include "commlens/base/result.hpp"
#include "commlens/engine/torch.hpp"

namespace commlens::engine {

/// The heads of a layer, each [batch, heads, sequence, head_dim], contiguous.
struct Heads {
  torch::Tensor query;
  torch::Tensor key;
  torch::Tensor value;
};

/// Splits the output of the qkv layer into heads and rotates the first 2 * cos.size(1) elements of queries
/// and keys.
///   qkv       [batch, sequence, heads * 3 * head_dim]: query, key and value of a head together
///   cos, sin  [sequence, rotary dims / 2] in the type of qkv, or undefined: nothing is rotated
/// Source: RoFormer, arXiv 2104.09864; element i of the first half turns with element i of the second half,
/// as in GPT-NeoX.
Heads split_heads(const torch::Tensor& qkv, std::int64_t head_dim, const torch::Tensor& cos,
                  const torch::Tensor& sin);

/// softmax(query key^T scale + bias) value, the softmax in the type of its input (LibTorch accumulates bf16
/// in fp32).
///   bias [1, sequence, sequence] or one a head, [heads, sequence, sequence]: -inf where attention is not
///   allowed, else the value that is added, e.g. 0
///   selective the attention weights are not kept but recomputed in backward (arXiv 2205.05198); the
///              results are the same bit for bit
/// Returns [batch, heads, sequence, head_dim].
torch::Tensor core_attention(const Heads& heads, const torch::Tensor& bias, double scale, bool selective);

/// The same in one kernel of LibTorch (scaled_dot_product_attention) that keeps no scores and computes them
/// again in backward. Only where `check_fused_attention` finds one.
///   bias  as above; undefined: a token sees itself and those before it
torch::Tensor fused_attention(const Heads& heads, const torch::Tensor& bias, double scale);

/// The properties that decide whether a fused kernel supports a layer's attention.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;  // of this rank
  std::int64_t sequence = 1;
  std::int64_t head_dim = 1;
  DType dtype = DType::fp32;
  torch::Device device = torch::kCPU;
  bool has_bias = false;
};

/// Fails, naming the missing feature, if LibTorch has no fused kernel for such attention, forward and
/// backward.
Result<void> check_fused_attention(const AttentionShape& shape);

}  // namespace commlens::engine
