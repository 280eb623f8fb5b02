#include "commlens/model/flops.hpp"

namespace commlens {
namespace {

/// Multiply-adds of one token in one layer's matrices. Of a mixture of experts a token passes top_k, those
/// that every token passes and the router; its dense layers count as such.
double matrix_weights(const ModelConfig& model) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double hidden = real(model.hidden);
  const double queries = real(model.heads * model.head_dim);
  const double keys = real(model.kv_heads * model.head_dim);
  const double attention = (queries + 2 * keys) * hidden + queries * hidden;
  const std::int64_t width =
      model.experts > 0 ? (model.top_k + model.shared_experts) * model.expert_hidden() : model.ffn_hidden;
  const double mlp = (model.gated_mlp ? 3 : 2) * hidden * real(width);
  const double router = real(model.experts) * hidden;
  return attention + router + mlp;
}

}  // namespace

Flops micro_batch_flops(const Job& job) {
  const ModelConfig& model = job.model;
  const auto sequence = static_cast<double>(model.sequence);
  const double tokens = static_cast<double>(job.train.micro_batch) * sequence;
  // Scores and their product with the values: 2 s per query element each, no saving for the causal mask.
  const double scores = 4 * sequence * static_cast<double>(model.heads * model.head_dim);
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
