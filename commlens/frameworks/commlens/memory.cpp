// What a rank of our trainer holds. Checked against its counted allocations (docs/memory.md).
#include "commlens/frameworks/memory.hpp"

#include <algorithm>

#include "commlens/frameworks/commlens/framework.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/memory_parts.hpp"

namespace commlens::trainer {
namespace {

/// Gradients are added up in fp32, in place where the model is in fp32 and nothing is sharded.
MemoryEstimate states_of(const Job& job, const HeldStage& stage) {
  const std::int64_t element = size_of(job.train.dtype);
  const int zero = job.train.zero_stage;
  MemoryEstimate estimate = model_states(job, stage, element);
  const bool is_summed_in_place = zero == 0 && job.train.dtype == DType::fp32;
  const Bytes sums = is_summed_in_place ? Bytes{} : states(stage.all, 4, job.layout, zero >= 1);
  estimate.gradients = (zero >= 2 ? Bytes{} : estimate.gradients) + sums;
  if (zero == 3 && job.train.hpz > 1) {
    estimate.parameters += Bytes{ceil_div(stage.all.dense * element, job.train.hpz)};
  }
  return estimate;
}

/// Masks of [sequence, sequence] that a layer adds to the scores: one, with ALiBi one a head, eager of each
/// sequence of the micro-batch. A fused kernel needs none to look back only.
double masks_of(const Job& job) {
  const bool is_fused = attention_of(job) == Attention::flash;
  if (job.model.positions != Positions::alibi) {
    return is_fused ? 0 : 1;
  }
  const std::int64_t heads = job.model.heads / job.layout.tp;
  return static_cast<double>(is_fused ? heads : heads * job.train.micro_batch);
}

/// There is no dropout and thus no masks of it; with sequence parallelism the gathered inputs of qkv and fc1
/// are kept; and the mask that is added to the scores; in their place, with fused attention, the fp32 sum of
/// each of their rows.
LayerActivations layer_activations(const Job& job, Recompute recompute) {
  const ModelConfig& model = job.model;
  const auto tp = static_cast<double>(job.layout.tp);
  const auto element = static_cast<double>(size_of(job.train.dtype));
  const auto hidden = static_cast<double>(model.hidden);
  const auto sequence = static_cast<double>(model.sequence);
  const double shared = job.layout.sequence_parallel ? tp : 1;
  if (recompute == Recompute::full) {
    const bool is_shared = job.layout.sequence_parallel || job.train.partition_activations;
    return {.per_token = element * hidden / (is_shared ? tp : 1)};
  }
  // q, k, v, proj input; fc1 output, fc2 input
  const auto queries = static_cast<double>(model.heads * model.head_dim);
  const double split_bytes = element * (4 * queries + 2 * static_cast<double>(model.ffn_hidden));
  // inputs of ln1, qkv, ln2, fc1
  const double whole_bytes = 2 * element * hidden * (1 + 1 / shared);
  const auto heads = static_cast<double>(model.heads);
  constexpr double k_sum = 4;
  const double eager = recompute == Recompute::none ? element * heads * sequence : 0;
  const double scores = attention_of(job) == Attention::flash ? k_sum * heads : eager;
  return {.per_token = (split_bytes + scores) / tp + whole_bytes,
          .fixed = element * masks_of(job) * sequence * sequence};
}

/// Elements one rank has gathered, or holds gradients of, around a module. In a framework that gathers.
struct Units {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t reduced = 0;  // of the gradients, those of the module before, on their way
};

/// Buckets of our trainer's stage 2 are allocated when the first of their gradients comes and freed when they
/// are reduced: one fills while the one before is on its way.
/// HeldStage 3: the module and the next one are gathered; its gradients fill while those before are on their
/// way.
Bytes buffers_at(const Job& job, const HeldStage& stage, const Units& units) {
  const std::int64_t element = size_of(job.train.dtype);
  const int zero = job.train.zero_stage;
  const std::int64_t dp = job.layout.dp;
  if (zero == 2) {
    const std::int64_t bucket = std::max(options(job).bucket.value, units.gradients * element);
    const std::int64_t under_way = units.reduced > 0 ? bucket + bucket / dp : 0;
    return Bytes{std::min(stage.all.dense * element, bucket + under_way)};
  }
  if (zero < 3) {
    return {};
  }
  const std::int64_t kept = kept_gathered(job).elements.value / job.layout.pp;
  const std::int64_t result = job.train.quantized_gradients ? 5 * units.reduced  // int4 twice, fp32 once
                                                            : element * units.reduced / dp;
  const std::int64_t quantized = job.train.quantized_weights ? units.parameters : 0;  // int8
  return Bytes{element * (units.parameters + units.gradients + 2 * kept) + quantized + result};
}

/// The head's kept tensors of one micro-batch.
Bytes logits_of(const Job& job, const HeldStage& stage) {
  const std::int64_t scores = stage.tokens * ceil_div(job.model.vocab, job.layout.tp);
  return Elements{scores + stage.tokens * job.model.hidden} * job.train.dtype;
}

/// Backward of the head begins: the loss of bf16 in fp32, a piece of the logits at a time
/// (engine/layers/cross_entropy.cpp); then the gradients of the head's input and weights.
Moment head_moment(const Job& job, const HeldStage& stage, Bytes activations) {
  const bool is_gpipe = job.train.schedule == Schedule::gpipe;
  const std::int64_t batches = is_gpipe ? job.train.micro_batches : 1;
  Moment moment{.activations = activations, .logits = logits_of(job, stage) * batches};
  moment.buffers =
      buffers_at(job, stage, {stage.table + (stage.layers > 0 ? stage.layer.dense : 0), stage.table, 0});
  constexpr std::int64_t k_piece = std::int64_t{1} << 19;
  const std::int64_t scores = stage.tokens * ceil_div(job.model.vocab, job.layout.tp);
  const std::int64_t piece = job.train.dtype == DType::fp32 ? 0 : std::min(scores, k_piece);
  moment.working = std::max(Elements{stage.tokens * job.model.hidden + stage.table} * job.train.dtype,
                            Elements{piece} * DType::fp32);
  return moment;
}

/// Backward of the stage's last layer begins.
Moment layer_moment(const Job& job, const HeldStage& stage, Bytes activations) {
  const ModelConfig& model = job.model;
  const std::int64_t tp = job.layout.tp;
  Moment moment{.activations = activations};
  if (stage.is_last && job.train.schedule == Schedule::gpipe) {
    moment.logits = logits_of(job, stage) * (job.train.micro_batches - 1);
  }
  const std::int64_t layer = stage.layer.dense + stage.layer.expert;
  const std::int64_t before = stage.is_last ? std::max(stage.table, layer) : layer;
  const std::int64_t gathered = std::min<std::int64_t>(stage.layers, 2) * layer;
  moment.buffers = buffers_at(job, stage, {gathered, layer + before, before});
  if (job.train.recompute == Recompute::full) {
    moment.working = layer_activations(job, Recompute::none).of(stage.tokens);
  }
  const std::int64_t of_mlp =
      stage.tokens * (2 * model.ffn_hidden / tp + 2 * model.hidden) + model.hidden * model.ffn_hidden / tp;
  // Gradients of the output, of queries, keys and values, and of qkv; eager those of the scores before it.
  const std::int64_t fused = 7 * model.head_dim;
  const std::int64_t eager = model.sequence + 5 * model.head_dim;
  const std::int64_t of_attention =
      stage.tokens * model.heads * (attention_of(job) == Attention::flash ? fused : eager) / tp;
  moment.working += Elements{std::max(of_mlp, of_attention)} * job.train.dtype;
  return moment;
}

/// The embedding's gradient is whole before it is added up, and what the micro-batch kept is gone by then.
Moment embedding_moment(const Job& job, const HeldStage& stage, Bytes activations) {
  const double in_flight = std::max(micro_batches_in_flight(job, stage), 1.0);
  Moment moment;
  moment.activations = bytes_of(static_cast<double>(activations.value) * (1 - 1 / in_flight));
  moment.buffers = buffers_at(job, stage, {stage.table, stage.table + stage.layer.dense, stage.layer.dense});
  moment.working = Elements{stage.table} * job.train.dtype;
  return moment;
}

/// Stages 1 and 2: updated shards are copied before they are gathered.
Moment update_moment(const Job& job, const HeldStage& stage) {
  const bool copies = job.train.zero_stage == 1 || job.train.zero_stage == 2;
  return {.buffers = copies ? states(stage.all, size_of(job.train.dtype), job.layout, true) : Bytes{}};
}

}  // namespace

MemoryEstimate memory_of_stage(const Job& job, std::int64_t index) {
  const HeldStage stage = held_by_stage(job, index);
  const Bytes activations = activations_in_flight(job, stage, layer_activations(job, job.train.recompute));
  Moment fullest = fuller(layer_moment(job, stage, activations), update_moment(job, stage));
  if (stage.is_last) {
    fullest = fuller(fullest, head_moment(job, stage, activations));
  }
  if (stage.index == 0) {
    fullest = fuller(fullest, embedding_moment(job, stage, activations));
  }
  return with_moment(states_of(job, stage), fullest);
}

}  // namespace commlens::trainer
