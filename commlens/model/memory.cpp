#include "commlens/model/memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "commlens/base/units.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

std::int64_t split(std::int64_t elements, std::int64_t ranks) { return ceil_div(elements, ranks); }

Bytes bytes_of(double count) { return Bytes{static_cast<std::int64_t>(std::ceil(count))}; }

/// Parameters of one rank, those of experts apart: they are shared over other ranks.
struct Held {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

/// One layer on one tensor rank, by the shapes of ParameterList.
Held layer_on_tensor_rank(const ModelConfig& model, std::int64_t tp) {
  ModelConfig one = model;
  one.layers = 1;
  const ParameterList list(one);
  Held held;
  for (const Parameter& parameter : list.all()) {
    if (parameter.module != ModuleKind::layer) {
      continue;
    }
    const bool is_whole = parameter.split == TensorSplit::replicated;
    const std::int64_t count = is_whole ? parameter.count.value : split(parameter.count.value, tp);
    (parameter.is_expert ? held.expert : held.dense) += count;
  }
  return held;
}

/// What one rank of a pipeline stage holds, in elements.
struct Stage {
  std::int64_t index = 0;
  bool is_last = false;
  std::int64_t layers = 0;
  Held layer;               // one of them, experts as this rank has them
  std::int64_t table = 0;   // the token table, or the head's
  std::int64_t tokens = 0;  // of a micro-batch
  Held all;
};

/// Layers are spread evenly, the first stages one more.
Stage stage_of(const Job& job, std::int64_t index) {
  const ModelConfig& model = job.model;
  const ParallelLayout& layout = job.layout;
  const std::int64_t tp = job.deepspeed.replicated_tensor_parallel ? 1 : layout.tp;
  Stage stage{.index = index, .is_last = index + 1 == layout.pp};
  stage.layers = model.layers / layout.pp + (index < model.layers % layout.pp ? 1 : 0);
  stage.layer = layer_on_tensor_rank(model, tp);
  stage.table = split(model.vocab * model.hidden, tp);
  stage.tokens = split(job.train.micro_batch * model.sequence, layout.cp);
  const std::int64_t positions =
      model.positions == Positions::learned ? model.max_positions * model.hidden : 0;
  const std::int64_t norm = model.final_norm ? (model.norm_bias ? 2 : 1) * model.hidden : 0;
  const bool shares_table = model.tied_embeddings && layout.pp == 1;
  stage.all.dense = stage.layers * stage.layer.dense + (index == 0 ? stage.table + positions : 0) +
                    (stage.is_last ? norm + (shares_table ? 0 : stage.table) : 0);
  stage.all.expert = split(stage.layers * stage.layer.expert, layout.ep);
  stage.layer.expert = split(stage.layer.expert, layout.ep);
  return stage;
}

/// Bytes of `bytes_each` per parameter, shared over the data-parallel ranks (experts: over those with the
/// same ones).
Bytes states(const Held& held, std::int64_t bytes_each, const ParallelLayout& layout, bool is_sharded) {
  const std::int64_t ranks = is_sharded ? layout.dp : 1;
  const std::int64_t expert_ranks = is_sharded ? layout.dp / layout.ep : 1;
  return Bytes{split(held.dense * bytes_each, ranks) + split(held.expert * bytes_each, expert_ranks)};
}

MemoryEstimate states_of(const Job& job, const Stage& stage) {
  const std::int64_t element = size_of(job.train.dtype);
  const bool is_mixed = job.train.dtype != DType::fp32;
  const int zero = job.train.zero_stage;
  const bool fp32_gradients = job.framework == Framework::megatron && job.megatron.gradients_in_fp32;
  MemoryEstimate estimate;
  estimate.parameters = states(stage.all, element, job.layout, zero >= 3);
  estimate.gradients = states(stage.all, fp32_gradients ? 4 : element, job.layout, zero >= 2);
  estimate.optimizer = states(stage.all, is_mixed ? 12 : 8, job.layout, zero >= 1);
  if (job.framework == Framework::commlens) {
    const bool is_summed_in_place = zero == 0 && !is_mixed;
    const Bytes sums = is_summed_in_place ? Bytes{} : states(stage.all, 4, job.layout, zero >= 1);
    estimate.gradients = (zero >= 2 ? Bytes{} : estimate.gradients) + sums;
    if (zero == 3 && job.commlens.hpz > 1) {
      estimate.parameters += Bytes{split(stage.all.dense * element, job.commlens.hpz)};
    }
  }
  return estimate;
}

struct LayerActivations {
  double per_token = 0;
  double fixed = 0;  // of a micro-batch, whatever its size
};

/// Masks of [sequence, sequence] that a layer of our trainer adds to the scores: one, with ALiBi one a head,
/// eager of each sequence of the micro-batch. A fused kernel needs none to look back only.
double masks_of(const Job& job) {
  const bool is_fused = attention_of(job) == Attention::flash;
  if (job.model.positions != Positions::alibi) {
    return is_fused ? 0 : 1;
  }
  const std::int64_t heads = job.model.heads / job.layout.tp;
  return static_cast<double>(is_fused ? heads : heads * job.train.micro_batch);
}

/// What one layer keeps of a micro-batch on one rank. arXiv 2205.05198 §4.1 counts 34 bytes a hidden element
/// and 5 a score for 2-byte elements; here by element size. Our trainer has no dropout and thus no masks;
/// with sequence parallelism it keeps the gathered inputs of qkv and fc1; it keeps the mask it adds to the
/// scores, and in their place, with fused attention, the fp32 sum of each of their rows.
LayerActivations layer_activations(const Job& job, Recompute recompute) {
  const ModelConfig& model = job.model;
  const auto tp = static_cast<double>(job.layout.tp);
  const auto element = static_cast<double>(size_of(job.train.dtype));
  const auto hidden = static_cast<double>(model.hidden);
  const auto sequence = static_cast<double>(model.sequence);
  const bool is_ours = job.framework == Framework::commlens;
  const double shared = job.layout.sequence_parallel ? tp : 1;
  if (recompute == Recompute::full) {
    const bool is_shared = job.layout.sequence_parallel || job.deepspeed.partition_activations ||
                           job.megatron.distribute_saved_activations ||
                           (is_ours && job.commlens.partition_activations);
    return {.per_token = element * hidden / (is_shared ? tp : 1)};
  }
  const auto queries = static_cast<double>(model.heads * model.head_dim);
  const auto keys = static_cast<double>(model.kv_heads * model.head_dim);
  const double experts = static_cast<double>(std::max<std::int64_t>(model.top_k, 1));
  const double inner = static_cast<double>(model.ffn_hidden) * (model.gated_mlp ? 3 : 2) * experts;
  // q, k, v, proj input; fc1 output, fc2 input
  const double split_bytes = element * (2 * queries + 2 * keys + inner);
  // inputs of ln1, qkv, ln2, fc1; two dropout masks
  const double whole_bytes =
      is_ours ? 2 * element * hidden * (1 + 1 / shared) : (4 * element + 2) * hidden / shared;
  const auto heads = static_cast<double>(model.heads);
  double scores = 0;
  if (attention_of(job) == Attention::flash) {
    constexpr double k_sum = 4;
    scores = is_ours ? k_sum * heads : 0;
  } else if (recompute == Recompute::none) {
    // softmax output; dropout mask and output
    scores = (is_ours ? element : 2 * element + 1) * heads * sequence;
  }
  return {.per_token = (split_bytes + scores) / tp + whole_bytes,
          .fixed = is_ours ? element * masks_of(job) * sequence * sequence : 0};
}

Bytes bytes_of(const LayerActivations& layer, const Stage& stage) {
  return bytes_of(layer.per_token * static_cast<double>(stage.tokens) + layer.fixed);
}

/// Micro-batches a stage has between forward and backward at its fullest moment.
double micro_batches_in_flight(const Job& job, const Stage& stage) {
  const auto stages = static_cast<double>(job.layout.pp);
  const auto batches = static_cast<double>(job.train.micro_batches);
  const auto chunks = static_cast<double>(job.layout.virtual_stages);
  const double after = stages - static_cast<double>(stage.index) - 1;
  switch (job.train.schedule) {
    case Schedule::gpipe:
      return batches;
    case Schedule::one_f_one_b:
      return std::min(after + 1, batches);
    case Schedule::interleaved:  // chunks under way; arXiv 2205.05198 §4.2.3 for the first stage
      return std::min(((chunks - 1) * stages + 2 * after + 1) / chunks, batches);
  }
  return batches;
}

/// A moment of a step and what it needs beside the states.
struct Moment {
  Bytes activations;
  Bytes logits;
  Bytes buffers;
  Bytes working;
  Bytes total() const { return activations + logits + buffers + working; }
};

/// Elements one rank has gathered, or holds gradients of, around a module. In a framework that gathers.
struct Units {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t reduced = 0;  // of the gradients, those of the module before, on their way
};

/// DeepSpeed keeps every parameter that is used again within max_reuse_distance elements, at the turn from
/// forward to backward half of them, fetches a bucket ahead, and never holds more than all of them. Source:
/// deepspeed 0.14.0 runtime/zero/partitioned_param_coordinator.py.
std::int64_t gathered_by_deepspeed(const Job& job, const Stage& stage, std::int64_t module) {
  const DeepSpeedOptions& options = job.deepspeed;
  const std::int64_t all = stage.all.dense + stage.all.expert;
  const std::int64_t reused = std::min(options.max_reuse_distance / 2, all);
  const std::int64_t fetched = std::min(options.prefetch_bucket_size, all);
  return std::min(all, reused + module + fetched);
}

/// reduce_bucket_size elements, twice with overlap_comm in stages 1 and 2. Source: deepspeed 0.14.0
/// runtime/zero/stage_1_and_2.py backward, runtime/zero/stage3.py.
Bytes deepspeed_buffers(const Job& job, const Stage& stage, std::int64_t module) {
  const DeepSpeedOptions& options = job.deepspeed;
  const int zero = job.train.zero_stage;
  Bytes buffers;
  if (zero > 0 && options.contiguous_gradients) {
    const bool is_double = zero < 3 && options.overlap_comm;
    const DType dtype = options.communication_dtype.value_or(job.train.dtype);
    buffers = Elements{options.reduce_bucket_size} * dtype * (is_double ? 2 : 1);
  }
  if (zero == 3) {
    const std::int64_t gathered =
        std::max(gathered_by_deepspeed(job, stage, module), kept_gathered(job).elements.value);
    buffers += Elements{gathered} * job.train.dtype;
  }
  return buffers;
}

/// Buckets of our trainer's stage 2 are allocated when the first of their gradients comes and freed when they
/// are reduced: one fills while the one before is on its way.
/// Stage 3: the module and the next one are gathered; its gradients fill while those before are on their way.
Bytes our_buffers(const Job& job, const Stage& stage, const Units& units) {
  const std::int64_t element = size_of(job.train.dtype);
  const int zero = job.train.zero_stage;
  const std::int64_t dp = job.layout.dp;
  if (zero == 2) {
    const std::int64_t bucket = std::max(job.commlens.bucket.value, units.gradients * element);
    const std::int64_t under_way = units.reduced > 0 ? bucket + bucket / dp : 0;
    return Bytes{std::min(stage.all.dense * element, bucket + under_way)};
  }
  if (zero < 3) {
    return {};
  }
  const std::int64_t kept = kept_gathered(job).elements.value / job.layout.pp;
  const std::int64_t result = job.commlens.quantized_gradients ? 5 * units.reduced  // int4 twice, fp32 once
                                                               : element * units.reduced / dp;
  const std::int64_t quantized = job.commlens.quantized_weights ? units.parameters : 0;  // int8
  return Bytes{element * (units.parameters + units.gradients + 2 * kept) + quantized + result};
}

Bytes buffers_at(const Job& job, const Stage& stage, std::int64_t module, const Units& units) {
  if (runs_deepspeed(job)) {
    return deepspeed_buffers(job, stage, module);
  }
  if (job.framework == Framework::torch_ddp && job.layout.dp > 1) {
    return states(stage.all, size_of(job.train.dtype), job.layout, false);  // buckets are copies of gradients
  }
  return job.framework == Framework::commlens ? our_buffers(job, stage, units) : Bytes{};
}

/// The head's kept tensors of one micro-batch.
Bytes logits_of(const Job& job, const Stage& stage) {
  const auto tokens = static_cast<double>(stage.tokens);
  const auto element = static_cast<double>(size_of(job.train.dtype));
  const double scores = tokens * static_cast<double>(split(job.model.vocab, job.layout.tp));
  if (job.framework == Framework::commlens) {
    return bytes_of(element * (scores + tokens * static_cast<double>(job.model.hidden)));
  }
  const double shared = job.layout.sequence_parallel ? static_cast<double>(job.layout.tp) : 1;
  const double input = element * tokens * static_cast<double>(job.model.hidden) / shared;
  const double each = job.train.dtype == DType::fp32 ? 4 + 4 : element + 4 + 4;
  return bytes_of(input + each * scores);
}

/// Backward of the head begins.
Moment head_moment(const Job& job, const Stage& stage, Bytes activations) {
  const bool is_gpipe = job.train.schedule == Schedule::gpipe;
  const std::int64_t batches = is_gpipe ? job.train.micro_batches : 1;
  Moment moment{.activations = activations, .logits = logits_of(job, stage) * batches};
  moment.buffers = buffers_at(job, stage, stage.table,
                              {stage.table + (stage.layers > 0 ? stage.layer.dense : 0), stage.table, 0});
  if (job.framework == Framework::commlens) {
    // The loss of bf16 in fp32, a piece of the logits at a time (engine/layers/cross_entropy.cpp); then the
    // gradients of the head's input and weights.
    constexpr std::int64_t k_piece = std::int64_t{1} << 19;
    const std::int64_t scores = stage.tokens * split(job.model.vocab, job.layout.tp);
    const std::int64_t piece = job.train.dtype == DType::fp32 ? 0 : std::min(scores, k_piece);
    moment.working = std::max(Elements{stage.tokens * job.model.hidden + stage.table} * job.train.dtype,
                              Elements{piece} * DType::fp32);
  }
  return moment;
}

/// Backward of the stage's last layer begins.
Moment layer_moment(const Job& job, const Stage& stage, Bytes activations) {
  const bool is_gpipe = job.train.schedule == Schedule::gpipe;
  Moment moment{.activations = activations};
  if (stage.is_last && is_gpipe) {
    moment.logits = logits_of(job, stage) * (job.train.micro_batches - 1);
  }
  const std::int64_t layer = stage.layer.dense + stage.layer.expert;
  const std::int64_t before = stage.is_last ? std::max(stage.table, layer) : layer;
  const std::int64_t gathered = std::min<std::int64_t>(stage.layers, 2) * layer;
  moment.buffers = buffers_at(job, stage, layer, {gathered, layer + before, before});
  if (job.train.recompute == Recompute::full) {
    const Bytes again = bytes_of(layer_activations(job, Recompute::none), stage);
    const bool in_groups = job.framework == Framework::neox;
    moment.working = again * (in_groups ? std::min(job.neox.checkpoint_num_layers, stage.layers) : 1);
  }
  if (job.framework == Framework::commlens) {
    const ModelConfig& model = job.model;
    const std::int64_t tp = job.layout.tp;
    const std::int64_t of_mlp =
        stage.tokens * (2 * model.ffn_hidden / tp + 2 * model.hidden) + model.hidden * model.ffn_hidden / tp;
    // Gradients of the output, of queries, keys and values, and of qkv; eager those of the scores before it.
    const std::int64_t fused = 7 * model.head_dim;
    const std::int64_t eager = model.sequence + 5 * model.head_dim;
    const std::int64_t of_attention =
        stage.tokens * model.heads * (attention_of(job) == Attention::flash ? fused : eager) / tp;
    moment.working += Elements{std::max(of_mlp, of_attention)} * job.train.dtype;
  }
  return moment;
}

/// Our trainer: the embedding's gradient is whole before it is added up, and what the micro-batch kept is
/// gone by then.
Moment embedding_moment(const Job& job, const Stage& stage, Bytes activations, double in_flight) {
  Moment moment;
  moment.activations = bytes_of(static_cast<double>(activations.value) * (1 - 1 / std::max(in_flight, 1.0)));
  moment.buffers =
      buffers_at(job, stage, stage.table, {stage.table, stage.table + stage.layer.dense, stage.layer.dense});
  moment.working = Elements{stage.table} * job.train.dtype;
  return moment;
}

/// Our trainer's stages 1 and 2: updated shards are copied before they are gathered.
Moment update_moment(const Job& job, const Stage& stage) {
  const bool copies = job.train.zero_stage == 1 || job.train.zero_stage == 2;
  return {.buffers = copies ? states(stage.all, size_of(job.train.dtype), job.layout, true) : Bytes{}};
}

Moment fullest_moment(const Job& job, const Stage& stage) {
  const double in_flight = micro_batches_in_flight(job, stage);
  const LayerActivations layer = layer_activations(job, job.train.recompute);
  const double per_batch = layer.per_token * static_cast<double>(stage.tokens) + layer.fixed;
  const Bytes activations = bytes_of(per_batch * static_cast<double>(stage.layers) * in_flight);
  Moment fullest = layer_moment(job, stage, activations);
  const auto consider = [&](const Moment& moment) {
    fullest = fullest.total() < moment.total() ? moment : fullest;
  };
  if (stage.is_last) {
    consider(head_moment(job, stage, activations));
  }
  if (job.framework == Framework::commlens) {
    consider(update_moment(job, stage));
    if (stage.index == 0) {
      consider(embedding_moment(job, stage, activations, in_flight));
    }
  }
  return fullest;
}

}  // namespace

Attention attention_of(const Job& job) {
  const bool is_llama = job.model.family == Family::llama && job.framework != Framework::commlens;
  return job.train.attention.value_or(is_llama ? Attention::flash : Attention::eager);
}

KeptParameters kept_gathered(const Job& job) {
  const bool is_ours = job.framework == Framework::commlens;
  if (job.train.zero_stage != 3 || (!is_ours && !runs_deepspeed(job))) {
    return {};
  }
  const std::int64_t threshold =
      is_ours ? job.commlens.persistence_threshold : job.deepspeed.param_persistence_threshold;
  const std::int64_t most = is_ours ? INT64_MAX : job.deepspeed.model_persistence_threshold;
  const std::int64_t tp = job.deepspeed.replicated_tensor_parallel ? 1 : job.layout.tp;
  KeptParameters kept;
  const ParameterList parameters(job.model);
  for (const Parameter& parameter : parameters.all()) {
    const std::int64_t count = on_tensor_rank(parameter, tp).value;
    if (count <= threshold && kept.elements.value <= most - count) {
      ++kept.count;
      kept.elements += Elements{count};
    }
  }
  return kept;
}

MemoryEstimate memory_of_stage(const Job& job, std::int64_t index) {
  const Stage stage = stage_of(job, index);
  MemoryEstimate estimate = states_of(job, stage);
  const Moment moment = fullest_moment(job, stage);
  estimate.activations = moment.activations;
  estimate.logits = moment.logits;
  estimate.buffers = moment.buffers;
  estimate.working = moment.working;
  return estimate;
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
