#include "commlens/frameworks/memory.hpp"

#include <algorithm>
#include <array>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// Elements of queries, keys and values a token, as attention keeps them.
double attention_width(const ModelConfig& model) {
  const LatentAttention& latent = model.latent;
  if (!latent.is_used()) {
    return real((model.heads + 2 * model.kv_heads) * model.head_dim);
  }
  return real(model.heads * (2 * (latent.nope_dim + latent.rope_dim) + latent.value_dim));
}

ExpertLayers expert_layers(const Job& job) {
  const ModelConfig& model = job.model;
  if (model.experts == 0) {
    return {};
  }
  if (const auto own = rules_of(job).memory.expert_layers; own != nullptr) {
    return own(job);
  }
  return {real(model.layers - model.dense_layers) / real(model.layers),
          model.shared_experts * model.expert_hidden()};
}

/// arXiv 2205.05198 §4.1 counts 34 bytes a hidden element and 5 a score for 2-byte elements; here by element
/// size. A layer of a mixture keeps the tokens that its experts get, top_k copies of each, and both sides of
/// the activation in each expert; the mean of all layers.
KeptActivations kept_activations(const Job& job) {
  const ModelConfig& model = job.model;
  const LatentAttention& latent = model.latent;
  const double tp = real(job.layout.tp);
  const double element = real(size_of(job.train.dtype));
  const double shared = job.layout.sequence_parallel ? tp : 1;
  const double hidden = element * real(model.hidden) / shared;
  const double sides = model.gated_mlp ? 3 : 2;  // fc1 output, fc2 input
  const ExpertLayers experts = expert_layers(job);
  const double mixtures = experts.share;
  // Tokens come to all ranks of an expert's tensor group.
  const double gathered = real(std::max<std::int64_t>(job.layout.expert_tp, 1));
  const std::int64_t attended =
      latent.is_used() ? model.heads * latent.value_dim : model.heads * model.head_dim;
  KeptActivations kept;
  kept.norm_inputs = 2 * hidden;
  kept.norm_outputs = 2 * hidden;
  kept.masks = 2 * real(model.hidden) / shared;
  kept.latents = element * real(latent.query_rank + latent.kv_rank + latent.rope_dim) / shared;
  kept.queries_keys_values = element * attention_width(model) / tp;
  kept.attention_output = element * real(attended) / tp;
  if (attention_of(job) == Attention::eager) {
    // softmax output; dropout mask and output
    kept.scores = (2 * element + 1) * real(model.heads) * real(model.sequence) / tp;
  }
  kept.mlp = (1 - mixtures) * element * sides * real(model.ffn_hidden) / tp;
  kept.expert_inputs = mixtures * element * real(model.top_k * model.hidden) * gathered / tp;
  kept.experts = mixtures * element * sides * real(model.top_k * model.expert_hidden()) / tp;
  kept.shared_experts = mixtures * element * sides * real(experts.shared_width) / tp;
  return kept;
}

LayerActivations layer_activations(const Job& job, Recompute recompute) {
  if (recompute == Recompute::full) {
    const bool is_shared = job.layout.sequence_parallel || job.train.partition_activations;
    const double element = real(size_of(job.train.dtype));
    return {.per_token = element * real(job.model.hidden) / (is_shared ? real(job.layout.tp) : 1)};
  }
  KeptActivations kept = kept_activations(job);
  if (recompute == Recompute::selective) {
    const auto drop = rules_of(job).memory.drop_recomputed;
    drop == nullptr ? kept.drop_scores() : drop(job, kept);
  }
  return {.per_token = kept.per_token()};
}

Bytes buffers_at(const Job& job, const HeldStage& stage, std::int64_t module) {
  const auto buffers = rules_of(job).memory.buffers;
  return buffers == nullptr ? Bytes{} : buffers(job, stage, module);
}

/// The head's kept tensors of one micro-batch.
Bytes logits_of(const Job& job, const HeldStage& stage) {
  const auto tokens = static_cast<double>(stage.tokens);
  const auto element = static_cast<double>(size_of(job.train.dtype));
  const double scores = tokens * static_cast<double>(ceil_div(job.model.vocab, job.layout.tp));
  const double shared = job.layout.sequence_parallel ? static_cast<double>(job.layout.tp) : 1;
  const double input = element * tokens * static_cast<double>(job.model.hidden) / shared;
  const double each = job.train.dtype == DType::fp32 ? 4 + 4 : element + 4 + 4;
  return bytes_of(input + each * scores);
}

/// Backward of the head begins.
Moment head_moment(const Job& job, const HeldStage& stage, Bytes activations) {
  const std::int64_t batches = job.train.schedule == Schedule::gpipe ? job.train.micro_batches : 1;
  return {.activations = activations,
          .logits = logits_of(job, stage) * batches,
          .buffers = buffers_at(job, stage, stage.table)};
}

/// Backward of the stage's last layer begins.
Moment layer_moment(const Job& job, const HeldStage& stage, Bytes activations) {
  Moment moment{.activations = activations};
  if (stage.is_last && job.train.schedule == Schedule::gpipe) {
    moment.logits = logits_of(job, stage) * (job.train.micro_batches - 1);
  }
  moment.buffers = buffers_at(job, stage, stage.layer.dense + stage.layer.expert);
  if (job.train.recompute == Recompute::full) {
    const auto at_once = rules_of(job).memory.layers_recomputed_at_once;
    const std::int64_t layers = at_once == nullptr ? 1 : std::min(at_once(job), stage.layers);
    moment.working = layer_activations(job, Recompute::none).of(stage.tokens) * layers;
  }
  return moment;
}

}  // namespace

MemoryEstimate common_memory_of_stage(const Job& job, std::int64_t index) {
  const auto held = rules_of(job).memory.held;
  const HeldStage stage = held == nullptr ? held_by_stage(job, index) : held(job, index);
  const auto gradient_bytes = rules_of(job).memory.gradient_bytes;
  const std::int64_t each = gradient_bytes == nullptr ? size_of(job.train.dtype) : gradient_bytes(job);
  const Bytes activations = activations_in_flight(job, stage, layer_activations(job, job.train.recompute));
  Moment fullest = layer_moment(job, stage, activations);
  if (stage.is_last) {
    fullest = fuller(fullest, head_moment(job, stage, activations));
  }
  return with_moment(model_states(job, stage, each), fullest);
}

Attention attention_of(const Job& job) {
  const bool is_fused = job.model.family == Family::llama && rules_of(job).memory.fuses_attention_of_llama;
  return job.train.attention.value_or(is_fused ? Attention::flash : Attention::eager);
}

KeptParameters kept_gathered(const Job& job) {
  const MemoryRules& rules = rules_of(job).memory;
  if (job.train.zero_stage != 3 || !rules.keeps_small_parameters) {
    return {};
  }
  const std::int64_t most = rules.most_kept == nullptr ? INT64_MAX : rules.most_kept(job);
  KeptParameters kept;
  const ParameterList parameters(job.model);
  for (const Parameter& parameter : parameters.all()) {
    const std::int64_t count = on_tensor_rank(parameter, job.layout.splitting_ranks()).value;
    if (count <= job.train.persistence_threshold && kept.elements.value <= most - count) {
      ++kept.count;
      kept.elements += Elements{count};
    }
  }
  return kept;
}

MemoryEstimate memory_of_stage(const Job& job, std::int64_t stage) {
  const auto own = rules_of(job).memory.of_stage;
  return own == nullptr ? common_memory_of_stage(job, stage) : own(job, stage);
}

MemoryEstimate memory_per_rank(const Job& job) {
  // Stages between differ from the second one only by having fewer micro-batches in flight.
  const std::int64_t pp = job.layout.pp;
  MemoryEstimate fullest = memory_of_stage(job, 0);
  for (const std::int64_t stage : std::array{std::min<std::int64_t>(1, pp - 1), pp - 1}) {
    const MemoryEstimate other = memory_of_stage(job, stage);
    fullest = fullest.total() < other.total() ? other : fullest;
  }
  return fullest;
}

}  // namespace commlens
