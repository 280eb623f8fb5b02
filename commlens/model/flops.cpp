#include "commlens/model/flops.hpp"

namespace commlens {
namespace {

double as_number(std::int64_t value) { return static_cast<double>(value); }

/// Multiply-adds of one token in the projections of a layer's attention.
double attention_weights(const ModelConfig& model) {
  const double hidden = as_number(model.hidden);
  if (const LatentAttention& latent = model.latent; latent.is_used()) {
    const double queries = as_number(model.heads * (latent.nope_dim + latent.rope_dim));
    const double rank = as_number(latent.query_rank);
    return (rank > 0 ? rank * (hidden + queries) : hidden * queries) +
           as_number(latent.kv_rank + latent.rope_dim) * hidden +
           as_number(model.heads * (latent.nope_dim + latent.value_dim) * latent.kv_rank) +
           as_number(model.heads * latent.value_dim) * hidden;
  }
  const double queries = as_number(model.heads * model.head_dim);
  const double keys = as_number(model.kv_heads * model.head_dim);
  return (queries + 2 * keys) * hidden + queries * hidden;
}

/// Multiply-adds of one token in one layer's matrices. Of a mixture of experts a token passes top_k, those
/// that every token passes and the router; its dense layers count as such.
double matrix_weights(const ModelConfig& model) {
  const double hidden = as_number(model.hidden);
  const std::int64_t width =
      model.experts > 0 ? (model.top_k + model.shared_experts) * model.expert_hidden() : model.ffn_hidden;
  const double mlp = (model.gated_mlp ? 3 : 2) * hidden * as_number(width);
  const double router = as_number(model.experts) * hidden;
  return attention_weights(model) + router + mlp;
}

}  // namespace

Flops micro_batch_flops(const Job& job) {
  const ModelConfig& model = job.model;
  const auto sequence = static_cast<double>(model.sequence);
  const double tokens = static_cast<double>(job.train.micro_batch) * sequence;
  // Scores and their product with the values: 2 s per query element each, no saving for the causal mask.
  const LatentAttention& latent = model.latent;
  const std::int64_t widths =
      latent.is_used() ? latent.nope_dim + latent.rope_dim + latent.value_dim : 2 * model.head_dim;
  const double scores = 2 * sequence * as_number(model.heads * widths);
  const double layer = 2 * matrix_weights(model) + scores;
  const double head = 2 * static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  double passes = 3 * layer;  // backward costs two forwards
  if (job.train.recompute == Recompute::full) {
    passes += layer;
  } else if (job.train.recompute == Recompute::selective) {
    passes += scores;
  }
  return {tokens * (static_cast<double>(model.layers) * passes + 3 * head)};
}

Flops iteration_flops_per_rank(const Job& job) {
  const auto ranks_of_a_replica = static_cast<double>(job.layout.tp * job.layout.pp * job.layout.cp);
  return {micro_batch_flops(job).value * static_cast<double>(job.train.micro_batches) / ranks_of_a_replica};
}

}  // namespace commlens
