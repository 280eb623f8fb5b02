#include "commlens/model/memory.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/base/units.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

/// Parameters of one rank, those of experts apart: they are shared over other ranks.
struct Held {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

std::int64_t split(std::int64_t elements, std::int64_t ranks) { return ceil_div(elements, ranks); }

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

/// The stage that holds most: the first has the embeddings, the last the final norm and the head.
Held on_fullest_rank(const Job& job) {
  const ModelConfig& model = job.model;
  const ParallelLayout& layout = job.layout;
  const std::int64_t tp = job.deepspeed.replicated_tensor_parallel ? 1 : layout.tp;
  const std::int64_t table = split(model.vocab * model.hidden, tp);
  const std::int64_t positions =
      model.positions == Positions::learned ? model.max_positions * model.hidden : 0;
  const std::int64_t norm = model.final_norm ? (model.norm_bias ? 2 : 1) * model.hidden : 0;
  const bool shares_table = model.tied_embeddings && layout.pp == 1;
  const std::int64_t first = table + positions;
  const std::int64_t last = norm + (shares_table ? 0 : table);
  const Held layer = layer_on_tensor_rank(model, tp);
  const std::int64_t layers = ceil_div(model.layers, layout.pp);
  const std::int64_t ends = layout.pp == 1 ? first + last : std::max(first, last);
  return {layers * layer.dense + ends, split(layers * layer.expert, layout.ep)};
}

/// Bytes of `bytes_each` per parameter, shared over the data-parallel ranks (experts: over those with the
/// same ones).
Bytes states(const Held& held, std::int64_t bytes_each, const ParallelLayout& layout, bool is_sharded) {
  const std::int64_t ranks = is_sharded ? layout.dp : 1;
  const std::int64_t expert_ranks = is_sharded ? layout.dp / layout.ep : 1;
  return Bytes{split(held.dense * bytes_each, ranks) + split(held.expert * bytes_each, expert_ranks)};
}

/// Activation bytes that one layer keeps per token, split over `tp` tensor ranks: [whole on each rank,
/// split]. arXiv 2205.05198 §4.1 counts 34 bytes a hidden element and 5 a score for 2-byte elements; here by
/// element size.
double layer_bytes_per_token(const Job& job) {
  const ModelConfig& model = job.model;
  const auto tp = static_cast<double>(job.layout.tp);
  const auto element = static_cast<double>(size_of(job.train.dtype));
  const auto hidden = static_cast<double>(model.hidden);
  if (job.train.recompute == Recompute::full) {
    const bool is_shared = job.layout.sequence_parallel || job.deepspeed.partition_activations ||
                           job.megatron.distribute_saved_activations;
    return element * hidden / (is_shared ? tp : 1);
  }
  const auto queries = static_cast<double>(model.heads * model.head_dim);
  const auto keys = static_cast<double>(model.kv_heads * model.head_dim);
  const double experts = static_cast<double>(std::max<std::int64_t>(model.top_k, 1));
  const double inner = static_cast<double>(model.ffn_hidden) * (model.gated_mlp ? 3 : 2) * experts;
  const double split_bytes =
      element * (2 * queries + 2 * keys + inner);         // q, k, v, proj input; fc1 output, fc2 input
  const double whole_bytes = (4 * element + 2) * hidden;  // inputs of ln1, qkv, ln2, fc1; two dropout masks
  double scores = 0;
  if (job.train.recompute == Recompute::none) {  // softmax output, dropout mask and output
    scores = (2 * element + 1) * static_cast<double>(model.heads) * static_cast<double>(model.sequence);
  }
  return (split_bytes + scores) / tp + whole_bytes / (job.layout.sequence_parallel ? tp : 1);
}

/// Layers whose activations the first stage keeps at its fullest moment: those of every micro-batch in
/// flight. Where stages differ, the first is taken to have as many layers as any, as in on_fullest_rank.
double layers_in_flight(const Job& job) {
  const auto stages = static_cast<double>(job.layout.pp);
  const auto batches = static_cast<double>(job.train.micro_batches);
  const auto chunks = static_cast<double>(job.layout.virtual_stages);
  const auto layers = static_cast<double>(job.model.layers);
  const auto of_stage = static_cast<double>(ceil_div(job.model.layers, job.layout.pp));
  switch (job.train.schedule) {
    case Schedule::gpipe:
      return of_stage * batches;
    case Schedule::one_f_one_b:
      return of_stage * std::min(stages, batches);
    case Schedule::interleaved:  // arXiv 2205.05198 §4.2.3
      return std::min(layers * (1 + (stages - 1) / (stages * chunks)), of_stage * batches);
  }
  return layers;
}

}  // namespace

MemoryEstimate memory_per_rank(const Job& job) {
  const Held held = on_fullest_rank(job);
  const std::int64_t element = size_of(job.train.dtype);
  const bool is_mixed = job.train.dtype != DType::fp32;
  const int stage = job.train.zero_stage;
  const bool fp32_gradients = job.framework == Framework::megatron && job.megatron.gradients_in_fp32;
  MemoryEstimate estimate;
  estimate.parameters = states(held, element, job.layout, stage >= 3);
  estimate.gradients = states(held, fp32_gradients ? 4 : element, job.layout, stage >= 2);
  estimate.optimizer = states(held, is_mixed ? 12 : 8, job.layout, stage >= 1);
  const double tokens = static_cast<double>(job.train.micro_batch) * static_cast<double>(job.model.sequence) /
                        static_cast<double>(job.layout.cp);
  const double activations = tokens * layer_bytes_per_token(job) * layers_in_flight(job);
  estimate.activations = Bytes{static_cast<std::int64_t>(std::ceil(activations))};
  return estimate;
}

}  // namespace commlens
