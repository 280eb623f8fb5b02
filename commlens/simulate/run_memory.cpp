#include "commlens/simulate/run_memory.hpp"

#include <algorithm>

#include "commlens/simulate/iteration_parts.hpp"
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

/// Ranks that hold the same part of a layer, and those that hold the same experts.
double replicas_of(const RunLayout& layout) { return as_double(layout.data() * layout.context); }
double expert_replicas_of(const RunLayout& layout) {
  const double ranks = replicas_of(layout) * as_double(layout.tensor);
  return std::max(ranks / as_double(layout.expert * layout.expert_tensor), 1.0);
}

/// Bytes of weights, gradients and Adam's states of one parameter that `replicas` ranks share. Gradients are
/// kept in the type in which they are reduced.
double bytes_of_parameter(const TrainingRun& run, double replicas) {
  const RunLayout& layout = run.layout;
  const double group =
      std::min(as_double(layout.shard_group > 0 ? layout.shard_group : layout.data()), replicas);
  switch (layout.data_kind) {
    case DataParallelKind::replicated:
      return 14 + run.behaviour.gradient_bytes;
    case DataParallelKind::optimizer:
      return 2 + run.behaviour.gradient_bytes + 12 / replicas;
    case DataParallelKind::owners:
      return 4 + 12 / group;
    case DataParallelKind::sharded:
      return (run.behaviour.has_host_optimizer ? 4 : 16) / group;
    case DataParallelKind::sharded_until_backward:
      return 2 + (run.behaviour.has_host_optimizer ? 2 : 14) / group;
  }
  return 18;
}

double tokens_of_micro_batch(const TrainingRun& run) {
  return as_double(run.layout.micro_batch) * as_double(run.model.sequence) / as_double(run.layout.context);
}

/// What a layer keeps where nothing is computed again.
double whole_layer_bytes(const TrainingRun& run, bool has_experts, bool keeps_scores) {
  const RunModel& model = run.model;
  const double tensor = as_double(run.layout.tensor);
  const double hidden = as_double(model.hidden);
  const double width =
      has_experts ? as_double(model.expert_ffn * (model.top_k + model.shared_experts)) : as_double(model.ffn);
  const double copies =
      has_experts ? 4 * hidden * as_double(model.top_k) : 0;  // of tokens, before and behind their experts
  const double attention = model.has_latent_attention
                               ? 2 * as_double(model.heads) * k_latent_widths
                               : 4 * as_double((model.heads + model.kv_heads) * model.head_dim);
  const double inside = attention + (model.is_gated ? 6 : 4) * width + copies;
  const double beside =
      (model.is_gated ? 8 : 10) * hidden;  // such models have no dropout, whose masks take 2
  const double scores = keeps_scores ? 5 * as_double(model.heads) * as_double(model.sequence) : 0;
  return tokens_of_micro_batch(run) *
         ((inside + scores) / tensor + beside / (run.layout.has_sequence_parallel ? tensor : 1));
}

/// Of the fullest kind of a model's layers, which may be of two: the stage that holds most has that alone, or
/// nearly.
template <typename Bytes>
double most_of_layers(const TrainingRun& run, const Bytes& bytes) {
  const bool has_mixtures = run.model.experts > 1 && run.model.layers > run.model.dense_layers;
  const bool has_dense = run.model.experts <= 1 || run.model.dense_layers > 0;
  return std::max(has_dense ? bytes(false) : 0, has_mixtures ? bytes(true) : 0);
}

/// Layers of the stage that has most experts.
StageLayers fullest_stage(const TrainingRun& run) {
  const double layers = as_double(run.model.layers) / as_double(run.layout.pipeline);
  if (run.model.experts <= 1) {
    return {layers, 0};
  }
  const double mixtures = std::min(layers, as_double(run.model.layers - run.model.dense_layers));
  return {layers - mixtures, mixtures};
}

/// Three passes of the model, attention over `pairs` of all pairs of tokens.
double flops_with(const TrainingRun& run, double pairs) {
  const RunModel& model = run.model;
  const double layers = as_double(model.layers);
  const double scores = 4 * as_double(model.sequence) * as_double(model.heads * attention_dimension(model));
  const double attention = 2 * projection_weights(run) + pairs * scores;
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

}  // namespace

double peak_of_precision(const TrainingRun& run) {
  const MatrixPrecision precision = run.behaviour.precision;
  const double faster = precision == MatrixPrecision::bf16 ? 1 : precision == MatrixPrecision::fp8 ? 2 : 4;
  return run.hardware.peak * faster;
}

double model_flops(const TrainingRun& run) { return flops_with(run, 1); }

double computed_flops(const TrainingRun& run) { return flops_with(run, .5); }

double parameter_bytes(const TrainingRun& run) { return bytes_of_parameter(run, replicas_of(run.layout)); }

double state_bytes(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  const StageLayers layers = fullest_stage(run);
  const double one = as_double(run.model.vocab) * as_double(run.model.hidden) / as_double(layout.tensor);
  LayerParameters parameters{one * (layout.pipeline == 1 && !run.model.has_tied_embeddings ? 2 : 1), 0};
  for (const bool has_experts : {false, true}) {
    const double count = has_experts ? layers.mixtures : layers.dense;
    if (count > 0) {
      const LayerParameters layer = layer_parameters(run, has_experts);
      parameters.shared += count * layer.shared;
      parameters.experts += count * layer.experts;
    }
  }
  return parameters.shared * parameter_bytes(run) +
         parameters.experts * bytes_of_parameter(run, expert_replicas_of(layout));
}

double layer_activation_bytes(const TrainingRun& run, bool has_experts) {
  if (run.behaviour.recompute == Recompute::full) {
    const double ranks = run.layout.has_sequence_parallel ? as_double(run.layout.tensor) : 1;
    return 2 * tokens_of_micro_batch(run) * as_double(run.model.hidden) / ranks;
  }
  return whole_layer_bytes(run, has_experts,
                           !run.behaviour.has_fused_attention && run.behaviour.recompute == Recompute::none);
}

MicroBatchMemory micro_batch_memory(const TrainingRun& run) {
  const RunModel& model = run.model;
  const double tensor = as_double(run.layout.tensor);
  const double tokens = tokens_of_micro_batch(run);
  const double split = run.layout.has_sequence_parallel ? tensor : 1;
  MicroBatchMemory memory;
  memory.layer =
      most_of_layers(run, [&](bool has_experts) { return layer_activation_bytes(run, has_experts); });
  memory.embedding = tokens * (8 + as_double(model.hidden) / split);
  memory.logits = 4 * tokens * as_double(model.hidden + model.vocab) / tensor;
  if (run.behaviour.recompute == Recompute::full) {
    memory.working = most_of_layers(run, [&](bool has_experts) {
      return whole_layer_bytes(run, has_experts, !run.behaviour.has_fused_attention);
    });
  }
  if (is_sharded(run.layout.data_kind)) {
    // Two gathered layers, the one at work and the next, and the whole gradients of one.
    memory.working += 8 * most_of_layers(run, [&](bool has_experts) {
                        const LayerParameters parameters = layer_parameters(run, has_experts);
                        return parameters.shared + parameters.experts;
                      });
  }
  return memory;
}

LayersInFlight layers_in_flight(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  const std::int64_t micro_batches = layout.micro_batches();
  const std::int64_t chunks = layout.virtual_stages;
  const double layers = as_double(run.model.layers) / as_double(layout.pipeline * chunks);
  const std::int64_t first =
      chunks > 1 ? (chunks + 1) * layout.pipeline - 1 : std::min(layout.pipeline, micro_batches);
  const std::int64_t last = chunks > 1 ? (chunks - 1) * layout.pipeline + 1 : 1;
  return {layers * as_double(std::min(first, micro_batches * chunks)),
          layers * as_double(std::min(last, micro_batches * chunks)),
          as_double(std::min(layout.pipeline, micro_batches))};
}

double device_memory_bytes(bool has_pipeline, double states, const MicroBatchMemory& memory,
                           const LayersInFlight& in_flight) {
  const double first = memory.layer * in_flight.first + memory.embedding * in_flight.embeddings;
  const double last = memory.layer * in_flight.last + memory.logits;
  const double activations = has_pipeline ? std::max(first, last) : first + memory.logits;
  return (states + activations + memory.working) * k_reserved_share + k_context_bytes;
}

double memory_bytes_of(const TrainingRun& run) {
  return device_memory_bytes(run.layout.pipeline > 1, state_bytes(run), micro_batch_memory(run),
                             layers_in_flight(run));
}

}  // namespace commlens
