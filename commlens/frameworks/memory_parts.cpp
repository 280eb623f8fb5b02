#include "commlens/frameworks/memory_parts.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

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
    const std::int64_t count = is_whole ? parameter.count.value : ceil_div(parameter.count.value, tp);
    (parameter.is_expert ? held.expert : held.dense) += count;
  }
  return held;
}

/// That shard the same experts. A grid of their own may reach over tensor ranks.
std::int64_t ranks_of_experts(const ParallelLayout& layout) {
  const bool has_grid = layout.folds_experts && layout.expert_tp > 0;
  return has_grid ? layout.dp * layout.cp * layout.tp / (layout.ep * layout.expert_tp)
                  : layout.dp / layout.ep;
}

}  // namespace

HeldStage held_by_stage(const Job& job, std::int64_t index) {
  const ModelConfig& model = job.model;
  const ParallelLayout& layout = job.layout;
  const std::int64_t tp = layout.splitting_ranks();
  HeldStage stage{.index = index, .is_last = index + 1 == layout.pp};
  stage.layers = model.layers / layout.pp + (index < model.layers % layout.pp ? 1 : 0);
  stage.layer = layer_on_tensor_rank(model, tp);
  stage.table = ceil_div(model.vocab * model.hidden, tp);
  stage.tokens = ceil_div(job.train.micro_batch * model.sequence, layout.cp);
  const std::int64_t positions =
      model.positions == Positions::learned ? model.max_positions * model.hidden : 0;
  const std::int64_t norm = model.final_norm ? (model.norm_bias ? 2 : 1) * model.hidden : 0;
  const bool shares_table = model.tied_embeddings && layout.pp == 1;
  stage.all.dense = stage.layers * stage.layer.dense + (index == 0 ? stage.table + positions : 0) +
                    (stage.is_last ? norm + (shares_table ? 0 : stage.table) : 0);
  stage.all.expert = ceil_div(stage.layers * stage.layer.expert, layout.ep);
  stage.layer.expert = ceil_div(stage.layer.expert, layout.ep);
  return stage;
}

Bytes states(const Held& held, std::int64_t bytes_each, const ParallelLayout& layout, bool is_sharded) {
  const std::int64_t ranks = is_sharded ? layout.dp : 1;
  const std::int64_t expert_ranks = is_sharded ? ranks_of_experts(layout) : 1;
  return Bytes{ceil_div(held.dense * bytes_each, ranks) + ceil_div(held.expert * bytes_each, expert_ranks)};
}

MemoryEstimate model_states(const Job& job, const HeldStage& stage, std::int64_t gradient_bytes) {
  const bool is_mixed = job.train.dtype != DType::fp32;
  const int zero = job.train.zero_stage;
  MemoryEstimate estimate;
  estimate.parameters = states(stage.all, size_of(job.train.dtype), job.layout, zero >= 3);
  estimate.gradients = states(stage.all, gradient_bytes, job.layout, zero >= 2);
  estimate.optimizer = states(stage.all, is_mixed ? 12 : 8, job.layout, zero >= 1);
  return estimate;
}

Bytes LayerActivations::of(std::int64_t tokens) const {
  return bytes_of(per_token * static_cast<double>(tokens) + fixed);
}

Bytes activations_in_flight(const Job& job, const HeldStage& stage, const LayerActivations& layer) {
  const double per_batch = layer.per_token * static_cast<double>(stage.tokens) + layer.fixed;
  return bytes_of(per_batch * static_cast<double>(stage.layers) * micro_batches_in_flight(job, stage));
}

double micro_batches_in_flight(const Job& job, const HeldStage& stage) {
  if (stage.in_flight > 0) {
    return stage.in_flight;
  }
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

Moment fuller(const Moment& a, const Moment& b) { return a.total() < b.total() ? b : a; }

MemoryEstimate with_moment(MemoryEstimate states, const Moment& moment) {
  states.activations = moment.activations;
  states.logits = moment.logits;
  states.buffers = moment.buffers;
  states.working = moment.working;
  return states;
}

Bytes bytes_of(double count) {
  constexpr double largest =
      1e18;  // the scores of all layers pass every integer in long sequences; sums of it do not
  return Bytes{static_cast<std::int64_t>(std::ceil(std::min(count, largest)))};
}

}  // namespace commlens
