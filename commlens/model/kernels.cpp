#include "commlens/model/kernels.hpp"

#include <algorithm>

#include "commlens/base/dtype.hpp"

namespace commlens {
namespace {

/// Sizes of one rank's share of a job.
struct Shares {
  explicit Shares(const Job& job)
      : tokens(job.train.micro_batch * job.model.sequence / job.layout.cp),
        tensor_ranks(job.layout.splitting_ranks()),
        norm_tokens(job.layout.sequence_parallel ? tokens / job.layout.tp : tokens),
        element(size_of(job.train.dtype)) {}
  std::int64_t tokens;
  std::int64_t tensor_ranks;
  std::int64_t norm_tokens;
  std::int64_t element;  // bytes
};

std::int64_t qkv_width(const ModelConfig& model) {
  return (model.heads + 2 * model.kv_heads) * model.head_dim;
}
/// Of the heads' outputs.
std::int64_t value_width(const ModelConfig& model) {
  return model.heads * (model.latent.is_used() ? model.latent.value_dim : model.head_dim);
}
/// Of a head, of latent attention the mean of its queries and its values.
std::int64_t attention_width(const ModelConfig& model) {
  const LatentAttention& latent = model.latent;
  return latent.is_used() ? (latent.nope_dim + latent.rope_dim + latent.value_dim) / 2 : model.head_dim;
}

/// Rows of an expert's matrices, the same for all experts of a rank but for a remainder of one.
struct ExpertRows {
  std::int64_t experts = 1;
  std::int64_t rows = 0;
  std::int64_t experts_with_one_more = 0;
};

ExpertRows expert_rows(const Job& job, const Shares& shares) {
  if (job.model.experts == 0) {
    return {1, shares.tokens, 0};
  }
  const std::int64_t experts = job.model.experts / job.layout.ep;
  const std::int64_t all = shares.tokens * job.model.top_k;
  return {experts, all / experts, all % experts};
}

/// A matrix [k, n] that rows pass; nothing of none.
void add_product(std::vector<Kernel>& kernels, Gemm forward, Pass pass) {
  if (forward.m == 0 || forward.count == 0) {
    return;
  }
  switch (pass) {
    case Pass::forward:
      kernels.emplace_back(forward);
      return;
    case Pass::input_gradient:
      kernels.emplace_back(Gemm{forward.m, forward.k, forward.n, forward.count});
      return;
    case Pass::weight_gradient:
      kernels.emplace_back(Gemm{forward.n, forward.k, forward.m, forward.count});
      return;
  }
}

std::vector<Kernel> product(const Gemm& forward, Pass pass) {
  std::vector<Kernel> kernels;
  add_product(kernels, forward, pass);
  return kernels;
}

/// One of the matrices of an MLP, or of a layer's experts and of those that every token passes. `matrix_of` a
/// width has n and k.
template <typename MatrixOf>
std::vector<Kernel> mlp_products(const Job& job, const Shares& shares, const MatrixOf& matrix_of, Pass pass) {
  const ModelConfig& model = job.model;
  const bool has_experts = model.experts > 0;
  const ExpertRows rows = expert_rows(job, shares);
  const Gemm matrix =
      matrix_of((has_experts ? model.expert_hidden() : model.ffn_hidden) / shares.tensor_ranks);
  std::vector<Kernel> kernels;
  add_product(kernels, {rows.rows, matrix.n, matrix.k, rows.experts - rows.experts_with_one_more}, pass);
  add_product(kernels, {rows.rows + 1, matrix.n, matrix.k, rows.experts_with_one_more}, pass);
  if (has_experts && model.shared_experts > 0) {
    const Gemm shared = matrix_of(model.shared_experts * model.expert_hidden() / shares.tensor_ranks);
    add_product(kernels, {shares.tokens, shared.n, shared.k}, pass);
  }
  return kernels;
}

/// `forward` bytes forward and twice as many backward; parts without matrices have no weight gradient apart.
std::vector<Kernel> moved(std::int64_t forward, Pass pass) {
  if (pass == Pass::weight_gradient || forward == 0) {
    return {};
  }
  return {MemoryKernel{Bytes{pass == Pass::forward ? forward : 2 * forward}}};
}

std::vector<Kernel> attention(const Job& job, const Shares& shares, Pass pass) {
  if (pass == Pass::weight_gradient) {
    return {};
  }
  const ModelConfig& model = job.model;
  return {AttentionKernel{.batch = job.train.micro_batch,
                          .heads = model.heads / shares.tensor_ranks,
                          .kv_heads = std::max<std::int64_t>(model.kv_heads / shares.tensor_ranks, 1),
                          .queries = model.sequence / job.layout.cp,
                          .keys = model.sequence,
                          .head_dim = attention_width(model),
                          .is_causal = true,
                          .is_fused = job.train.attention == Attention::flash,
                          .is_backward = pass == Pass::input_gradient}};
}

/// Queries, keys and values; of latent attention by way of narrow products that every tensor rank makes.
std::vector<Kernel> qkv(const Job& job, const Shares& shares, Pass pass) {
  const ModelConfig& model = job.model;
  const LatentAttention& latent = model.latent;
  if (!latent.is_used()) {
    return product({shares.tokens, qkv_width(model) / shares.tensor_ranks, model.hidden}, pass);
  }
  const std::int64_t heads = model.heads / shares.tensor_ranks;
  const bool has_narrow_queries = latent.query_rank > 0;
  std::vector<Kernel> kernels;
  if (has_narrow_queries) {
    add_product(kernels, {shares.tokens, latent.query_rank, model.hidden}, pass);
  }
  add_product(kernels,
              {shares.tokens, heads * (latent.nope_dim + latent.rope_dim),
               has_narrow_queries ? latent.query_rank : model.hidden},
              pass);
  add_product(kernels, {shares.tokens, latent.kv_rank + latent.rope_dim, model.hidden}, pass);
  add_product(kernels, {shares.tokens, heads * (latent.nope_dim + latent.value_dim), latent.kv_rank}, pass);
  return kernels;
}

std::vector<Kernel> router(const Job& job, const Shares& shares, Pass pass) {
  const ModelConfig& model = job.model;
  if (model.experts == 0) {
    return {};
  }
  std::vector<Kernel> kernels = product({shares.norm_tokens, model.experts, model.hidden}, pass);
  const std::vector<Kernel> dispatch =
      moved(4 * shares.norm_tokens * model.hidden * model.top_k * shares.element, pass);
  kernels.insert(kernels.end(), dispatch.begin(), dispatch.end());
  return kernels;
}

std::vector<Kernel> activation(const Job& job, const Shares& shares, Pass pass) {
  const ModelConfig& model = job.model;
  // Of all rows of a token: those of its experts, and of the experts that every token passes.
  const std::int64_t width =
      model.experts > 0 ? (model.top_k + model.shared_experts) * model.expert_hidden() : model.ffn_hidden;
  return moved((model.gated_mlp ? 3 : 2) * shares.tokens * (width / shares.tensor_ranks) * shares.element,
               pass);
}

std::vector<Kernel> loss(const Job& job, const Shares& shares, Pass pass) {
  constexpr std::int64_t bytes_of_both_passes = 14;
  constexpr std::int64_t bytes_forward = 6;
  const std::int64_t logits = shares.tokens * job.model.vocab / shares.tensor_ranks;
  switch (pass) {
    case Pass::forward:
      return {MemoryKernel{Bytes{bytes_forward * logits}}};
    case Pass::input_gradient:
      return {MemoryKernel{Bytes{(bytes_of_both_passes - bytes_forward) * logits}}};
    case Pass::weight_gradient:
      return {};
  }
  return {};
}

double real(std::int64_t value) { return static_cast<double>(value); }

struct CountFlops {
  double operator()(const Gemm& gemm) const {
    return 2 * real(gemm.m) * real(gemm.n) * real(gemm.k) * real(gemm.count);
  }
  double operator()(const AttentionKernel& kernel) const {
    const double forward = 4 * real(kernel.batch) * real(kernel.heads) * real(kernel.queries) *
                           real(kernel.keys) * real(kernel.head_dim);
    return kernel.is_backward ? 2 * forward : forward;
  }
  double operator()(const MemoryKernel&) const { return 0; }
};

struct CountBytes {
  DType dtype;
  std::int64_t operator()(const Gemm& gemm) const {
    const std::int64_t elements = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n;
    return gemm.count * elements * size_of(dtype);
  }
  std::int64_t operator()(const AttentionKernel& kernel) const {
    const std::int64_t rows = kernel.heads * kernel.queries + kernel.kv_heads * kernel.keys;
    const std::int64_t vectors = 2 * kernel.batch * rows * kernel.head_dim;
    const std::int64_t scores =
        kernel.is_fused ? 0 : 4 * kernel.batch * kernel.heads * kernel.queries * kernel.keys;
    return (kernel.is_backward ? 2 : 1) * (vectors + scores) * size_of(dtype);
  }
  std::int64_t operator()(const MemoryKernel& kernel) const { return kernel.moved.value; }
};

}  // namespace

Bytes bytes_of(const Kernel& kernel, DType dtype) { return {std::visit(CountBytes{dtype}, kernel)}; }

Flops flops_of(const Kernel& kernel) { return {std::visit(CountFlops{}, kernel)}; }

Flops unmasked_flops(const Kernel& kernel) {
  const AttentionKernel* const attention = std::get_if<AttentionKernel>(&kernel);
  const bool is_halved = attention != nullptr && attention->is_causal;
  return {flops_of(kernel).value * (is_halved ? 0.5 : 1)};
}

std::vector<Kernel> kernels_of(const Job& job, ModulePart part, Pass pass) {
  const Shares shares(job);
  const ModelConfig& model = job.model;
  const std::int64_t ranks = shares.tensor_ranks;
  const std::int64_t norm = 3 * shares.norm_tokens * model.hidden * shares.element;
  switch (part) {
    case ModulePart::embedding:
      return moved(2 * shares.tokens * model.hidden * shares.element, pass);
    case ModulePart::ln1:
    case ModulePart::ln2:
      return moved(norm, pass);
    case ModulePart::final_norm:
      return model.final_norm ? moved(norm, pass) : std::vector<Kernel>{};
    case ModulePart::qkv:
      return qkv(job, shares, pass);
    case ModulePart::attention:
      return attention(job, shares, pass);
    case ModulePart::proj:
      return product({shares.tokens, model.hidden, value_width(model) / ranks}, pass);
    case ModulePart::router:
      return router(job, shares, pass);
    case ModulePart::fc1: {
      const std::int64_t matrices = model.gated_mlp ? 2 : 1;
      return mlp_products(
          job, shares, [&](std::int64_t width) { return Gemm{0, matrices * width, model.hidden}; }, pass);
    }
    case ModulePart::activation:
      return activation(job, shares, pass);
    case ModulePart::fc2:
      return mlp_products(
          job, shares, [&](std::int64_t width) { return Gemm{0, model.hidden, width}; }, pass);
    case ModulePart::head:
      return product({shares.tokens, model.vocab / ranks, model.hidden}, pass);
    case ModulePart::loss:
      return loss(job, shares, pass);
  }
  return {};
}

std::vector<Kernel> optimizer_kernels(Elements elements, DType model_dtype, DType state_dtype) {
  constexpr std::int64_t touched = 7;  // gradient, parameter, two moments; the latter three again
  const std::int64_t copy = model_dtype == state_dtype ? 0 : size_of(model_dtype);
  return {MemoryKernel{Bytes{elements.value * (touched * size_of(state_dtype) + copy)}}};
}

}  // namespace commlens
