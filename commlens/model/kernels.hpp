#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// `count` matrix products, each [m, k] x [k, n].
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 1;
  friend bool operator==(const Gemm&, const Gemm&) = default;
};

/// softmax(Q K^T) V of `batch` x `heads`: Q [queries, head_dim]; K and V [keys, head_dim] for each of
/// `kv_heads`, which the heads share. Fused: one kernel that keeps no scores (FlashAttention, SDPA).
struct AttentionKernel {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 0;
  bool is_causal = true;
  bool is_fused = false;
  bool is_backward = false;
  friend bool operator==(const AttentionKernel&, const AttentionKernel&) = default;
};

/// Element-wise work, limited by memory: bytes read and written.
struct MemoryKernel {
  Bytes moved;
  friend bool operator==(const MemoryKernel&, const MemoryKernel&) = default;
};

/// What a device computes between two messages: a piece of what a framework launches.
using Kernel = std::variant<Gemm, AttentionKernel, MemoryKernel>;

/// 2 m n k of a product; 4 d for each query and key of attention, whether or not the mask spares half of them
/// (as Narayanan et al., arXiv 2104.04473, count it), twice that backward; 0 of memory kernels.
Flops flops_of(const Kernel& kernel);

/// The same without what a causal mask spares: half of attention.
Flops unmasked_flops(const Kernel& kernel);

/// Bytes read and written: each matrix of a product once; of attention Q, K, V and the output, unless fused
/// also the scores, written and read before and after the softmax; twice that backward.
Bytes bytes_of(const Kernel& kernel, DType dtype);

/// The parts of a transformer that compute, in the order of the forward pass. `fc1` and `fc2` are those of
/// all experts that a rank holds in a mixture.
enum class ModulePart : std::uint8_t {
  embedding,
  ln1,
  qkv,
  attention,
  proj,
  ln2,
  router,
  fc1,
  activation,
  fc2,
  final_norm,
  head,
  loss
};
constexpr int k_module_parts = 13;

enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient };

/// What one rank computes in a part for one micro-batch: nothing for parts that the model lacks, and no
/// weight gradient of parts without matrices (that of norms and embeddings is in their input gradient).
///
/// Shapes: M = micro_batch x sequence / cp tokens; matrices are divided over the tensor ranks, norms only
/// under sequence parallelism. Experts get M top_k rows in all, spread evenly over those of a rank.
/// Bytes of the forward pass, e = size of the dtype (calibrated on published iteration times): each norm with
/// its residual 3 M h e, an activation of width f 3 M f e when gated and 2 M f e else, dispatch to experts
/// 4 M h top_k e in the router; the loss 14 bytes for each of M V/t logits, both passes together.
/// The backward pass moves twice as much.
std::vector<Kernel> kernels_of(const Job& job, ModulePart part, Pass pass);

/// The update of `elements` parameters by Adam: gradient, parameter and two moments read, the latter three
/// written, in `state_dtype`; a model of another type has its copy written too.
std::vector<Kernel> optimizer_kernels(Elements elements, DType model_dtype, DType state_dtype = DType::fp32);

}  // namespace commlens
