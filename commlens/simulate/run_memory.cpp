// Mathematics and memory of a run, beside its time.
#include <algorithm>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/layer_times.hpp"

namespace commlens {
namespace {

// Of the processes themselves, and what allocators keep beyond what is used (docs/memory.md).
constexpr double k_context_bytes = 1e9;
constexpr double k_reserved_share = 1.06;
// Widths of a head of latent attention: queries, keys (with positions), values and the result (DeepSeek-V2,
// arXiv 2405.04434).
constexpr double k_latent_widths = 192 + 192 + 128 + 128;

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// Layers of the stage that has most experts.
struct StageLayers {
  double dense = 0;
  double mixture = 0;
};

StageLayers fullest_stage(const TrainingRun& run) {
  const double layers = as_double(run.model.layers) / as_double(run.layout.pipeline);
  if (run.model.experts <= 1) {
    return {layers, 0};
  }
  const double mixture = std::min(layers, as_double(run.model.layers - run.model.dense_layers));
  return {layers - mixture, mixture};
}

/// Weights, gradients and Adam's states of one parameter (rules of mixed precision, docs/memory.md), the
/// optimizer's spread over so many ranks.
double state_bytes(const TrainingRun& run, double ranks) {
  const RunLayout& layout = run.layout;
  const double group = as_double(layout.shard_group > 0 ? layout.shard_group : layout.data());
  switch (layout.data_kind) {
    case DataParallelKind::replicated:
      return 18;
    case DataParallelKind::optimizer:
      return 6 + 12 / std::max(ranks, 1.0);
    case DataParallelKind::owners:
      return 4 + 12 / group;
    case DataParallelKind::sharded:
    case DataParallelKind::sharded_until_backward:
      return (run.behaviour.has_host_optimizer ? 4 : 16) / group;
  }
  return 18;
}

double states(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  const StageLayers stage = fullest_stage(run);
  const LayerParameters plain = layer_parameters(run, false);
  const LayerParameters mixture = run.model.experts > 1 ? layer_parameters(run, true) : LayerParameters();
  const double embeddings =
      as_double(run.model.vocab) * as_double(run.model.hidden) / as_double(layout.tensor);
  const double shared = stage.dense * plain.shared + stage.mixture * mixture.shared +
                        embeddings * (layout.pipeline == 1 && !run.model.has_tied_embeddings ? 2 : 1);
  const double ranks = as_double(layout.data() * layout.context);
  const double replicas = ranks * as_double(layout.tensor) / as_double(layout.expert * layout.expert_tensor);
  return shared * state_bytes(run, ranks) + stage.mixture * mixture.experts * state_bytes(run, replicas);
}

/// Queries, keys, values and what attention makes of them, of a token: bytes of all tensor ranks.
double attention_bytes(const RunModel& model) {
  if (model.has_latent_attention) {
    return 2 * as_double(model.heads) * k_latent_widths;
  }
  return 4 * as_double(model.head_dim) * as_double(model.heads + model.kv_heads);
}

/// Activations that one layer keeps for one micro-batch (Korthikanti et al., arXiv 2205.05198, with the width
/// of the feed-forward network for its 4 h; of a mixture the copies of a token at its experts, before and
/// behind them).
double activation_bytes(const TrainingRun& run, bool has_experts) {
  const RunModel& model = run.model;
  const double tensor = as_double(run.layout.tensor);
  const double tokens =
      as_double(run.layout.micro_batch) * as_double(model.sequence) / as_double(run.layout.context);
  const double hidden = as_double(model.hidden);
  if (run.behaviour.recompute == Recompute::full) {
    return 2 * tokens * hidden / (run.layout.has_sequence_parallel ? tensor : 1);
  }
  const double width = has_experts
                           ? as_double(model.expert_ffn) * as_double(model.top_k + model.shared_experts)
                           : as_double(model.ffn);
  const double copies = has_experts ? 4 * as_double(model.top_k) * hidden : 0;
  const double inside = attention_bytes(model) + (model.is_gated ? 6 : 4) * width + copies;
  const double beside = 10 * hidden;
  const double scores = run.behaviour.has_fused_attention || run.behaviour.recompute == Recompute::selective
                            ? 0
                            : 5 * as_double(model.heads) * as_double(model.sequence);
  return tokens * ((inside + scores) / tensor + beside / (run.layout.has_sequence_parallel ? tensor : 1));
}

}  // namespace

double model_flops(const TrainingRun& run) {
  const RunModel& model = run.model;
  const double layers = as_double(model.layers);
  const double width = as_double(model.heads * model.head_dim);
  const double attention =
      2 * as_double(model.hidden) * (2 * width + 2 * as_double(model.kv_heads * model.head_dim)) +
      4 * as_double(model.sequence) * width;
  const double matrices = model.is_gated ? 3 : 2;
  const double dense_width = as_double(model.ffn);
  const double expert_width = as_double(model.expert_ffn) * as_double(model.top_k + model.shared_experts);
  const double dense = model.experts > 1 ? as_double(model.dense_layers) : layers;
  const double feed =
      2 * as_double(model.hidden) * matrices * (dense * dense_width + (layers - dense) * expert_width);
  const double head = 2 * as_double(model.hidden) * as_double(model.vocab);
  const double tokens = as_double(run.layout.global_batch) * as_double(model.sequence);
  return 3 * (layers * attention + feed + head) * tokens / as_double(run.layout.ranks);
}

double memory_bytes_of(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  double in_flight = as_double(std::min(layout.pipeline, layout.micro_batches()));
  if (layout.virtual_stages > 1) {
    in_flight *= 1 + as_double(layout.pipeline - 1) / as_double(layout.pipeline * layout.virtual_stages);
  }
  const double tokens =
      as_double(layout.micro_batch) * as_double(run.model.sequence) / as_double(layout.context);
  const double logits = 4 * tokens * as_double(run.model.vocab) / as_double(layout.tensor);
  const StageLayers stage = fullest_stage(run);
  const double activations =
      stage.dense * activation_bytes(run, false) + stage.mixture * activation_bytes(run, true);
  return (states(run) + in_flight * activations + logits) * k_reserved_share + k_context_bytes;
}

}  // namespace commlens
