#include "commlens/frameworks/paper/shares.hpp"

#include <numeric>

#include "commlens/frameworks/commlens/flat_units.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::paper {
namespace {

using Corrections = std::set<Correction>;

/// Eq. 1, or what corrections make of its terms.
std::int64_t parameters_of_model(const Job& job, const Corrections& corrections) {
  const ModelConfig& model = job.model;
  const std::int64_t hidden = model.hidden;
  const ModelConfig for_one_rank = with_padded_vocab(model, 1);
  const std::int64_t vocab =
      corrections.contains(Correction::padded_vocabulary) ? model.vocab : for_one_rank.vocab;
  const bool tied =
      corrections.contains(Correction::tied_weights) && model.tied_embeddings && job.layout.pp == 1;
  const std::int64_t embeddings = (tied ? 1 : 2) * vocab * hidden;

  const std::int64_t equation_tables = 2 * for_one_rank.vocab * hidden + model.sequence * hidden;
  const std::int64_t equation_layers = paper_parameter_count(model).value - equation_tables;
  const std::int64_t true_positions =
      model.positions == Positions::learned ? model.max_positions * hidden : 0;
  const std::int64_t true_tables = (model.tied_embeddings ? 1 : 2) * model.vocab * hidden + true_positions;
  const std::int64_t true_layers = parameter_count(model).value - true_tables;
  return embeddings +
         (corrections.contains(Correction::positions) ? true_positions : model.sequence * hidden) +
         (corrections.contains(Correction::layer_parameters) ? true_layers : equation_layers);
}

/// What one tensor rank holds of all stages together, some tensors whole.
std::int64_t parameters_of_tensor_rank(const Job& job) {
  const ParameterList parameters(job.model);
  const std::int64_t tensor = tensor_ranks(job);
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters.all()) {
    sum += on_tensor_rank(parameter, tensor).value;
  }
  const bool has_copy = job.model.tied_embeddings && job.layout.pp > 1;
  return sum + (has_copy ? job.model.vocab / tensor * job.model.hidden : 0);
}

std::int64_t padded_by_group(const LocalParameters& parameters, const Job& job) {
  std::int64_t sum = 0;
  for (const LocalParameters& group :
       optimizer_groups(parameters, deepspeed::options(job).weight_decay_groups)) {
    sum += round_up(total_count(group), 2 * job.layout.dp);
  }
  return sum;
}

std::int64_t padded_by_parameter(const LocalParameters& parameters, std::int64_t ranks) {
  std::int64_t sum = 0;
  for (const LocalParameter& parameter : parameters) {
    sum += round_up(parameter.count, ranks);
  }
  return sum;
}

/// Our trainer pads every unit; in stage 3 as if no parameter were persistent, which is a cause of its own.
std::int64_t padded_by_unit(Job job, std::int64_t stage) {
  job.train.persistence_threshold = job.train.zero_stage == 3 ? 0 : job.train.persistence_threshold;
  std::int64_t sum = 0;
  for (const HeldChunk& chunk : held_chunks(job, stage)) {
    for (const FlatUnit& unit : flat_units(job, chunk)) {
      sum += unit.padded;
    }
  }
  return sum;
}

/// Under ZeRO-3 a tied embedding is gathered for the embedding and for the head; our trainer reduces its
/// gradient for either, too.
void add_tied_again(StageShare& share, const Job& job, std::int64_t stage) {
  const bool one_stage_holds_both = job.model.tied_embeddings && job.layout.pp == 1;
  if (job.train.zero_stage != 3 || !one_stage_holds_both) {
    return;
  }
  if (deepspeed::runs(job)) {
    share.gathered +=
        Elements{round_up(job.model.vocab * job.model.hidden / tensor_ranks(job), job.layout.dp)};
  }
  if (job.framework != "commlens") {
    return;
  }
  Elements sum;
  for (const HeldChunk& chunk : held_chunks(job, stage)) {
    for (const FlatUnit& unit : flat_units(job, chunk)) {
      sum.value += unit.tag == "wte" ? unit.padded : 0;
    }
  }
  share.gathered += sum;
  share.gradients += sum;
}

/// Adds what the framework pads to the exact parameters of a stage.
void pad(StageShare& share, const LocalParameters& parameters, const Job& job, std::int64_t stage) {
  const int zero = job.train.zero_stage;
  if (deepspeed::runs(job) && zero == 3) {
    share.gathered = share.gradients = {padded_by_parameter(parameters, job.layout.dp)};
  } else if (deepspeed::runs(job) && (zero > 0 || shards_optimizer(job))) {
    share.gathered = {padded_by_group(parameters, job)};
    // BF16_Optimizer reduces its flat, padded buffers (runtime/bf16_optimizer.py:106).
    share.gradients = shards_optimizer(job) ? share.gathered : share.gradients;
  } else if (job.framework == "megatron" && zero > 0) {
    constexpr std::int64_t alignment = 128;  // distrib_optimizer.py: lcm(d, 128)
    share.gathered = share.gradients = {round_up(share.gradients.value, std::lcm(job.layout.dp, alignment))};
  } else if (job.framework == "commlens" && zero > 0) {
    share.gathered = share.gradients = {padded_by_unit(job, stage)};
  }
}

/// The parts of the stages, as the framework or as the equations cut the model.
Result<std::vector<StagePart>> parts_of(const Job& job, const Corrections& corrections) {
  if (corrections.contains(Correction::stage_partition)) {
    const auto parts = rules_of(job).parts;
    if (parts != nullptr && job.layout.pp > 1) {
      return parts(job);
    }
  }
  const StageBounds bounds = partition_uniform(job.model.layers, job.layout.pp);
  std::vector<StagePart> parts;
  for (std::size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
    const bool is_last = stage + 2 == bounds.size();
    parts.push_back({bounds[stage], bounds[stage + 1] - bounds[stage], stage == 0, is_last, is_last});
  }
  return parts;
}

}  // namespace

Result<std::vector<StageShare>> stage_shares(const Job& job, const Corrections& corrections,
                                             std::span<const std::int64_t> stages) {
  const Result<std::vector<StagePart>> parts = parts_of(job, corrections);
  if (!parts) {
    return tl::unexpected(parts.error());
  }
  const bool exact = corrections.contains(Correction::stage_partition);
  const std::int64_t tensor =
      corrections.contains(Correction::replicated_ranks) ? tensor_ranks(job) : job.layout.tp;
  std::int64_t even = ceil_div(parameters_of_model(job, corrections), tensor * job.layout.pp);
  if (corrections.contains(Correction::replicated_tensors) && tensor > 1) {
    even = ceil_div(parameters_of_tensor_rank(job), job.layout.pp);
  }
  std::vector<StageShare> shares;
  for (const std::int64_t stage : stages) {
    const StagePart& part = (*parts)[static_cast<std::size_t>(stage)];
    StageShare share{part.layers, stage == 0, stage + 1 == job.layout.pp, {even}, {even}};
    if (exact && job.layout.dp > 1) {
      const LocalParameters held = local_parameters(job.model, ParameterList(job.model), tensor, part);
      share.gradients = share.gathered = {total_count(held)};
      if (corrections.contains(Correction::partition_padding)) {
        pad(share, held, job, stage);
      }
      if (corrections.contains(Correction::tied_modules)) {
        add_tied_again(share, job, stage);
      }
    }
    shares.push_back(share);
  }
  return shares;
}

std::int64_t tensor_ranks(const Job& job) { return job.layout.splitting_ranks(); }

DType reduced_gradients(const Job& job) {
  if (deepspeed::runs(job)) {
    return deepspeed::sent_dtype(job, deepspeed::communication_dtype(job));
  }
  return job.framework == "megatron" && megatron::options(job).gradients_in_fp32 ? DType::fp32
                                                                                 : job.train.dtype;
}

DType reduced_activations(const Job& job) {
  const bool in_fp32 =
      job.framework == "neox" && neox::options(job).fp32_allreduce && job.train.dtype == DType::bf16;
  return in_fp32 ? DType::fp32 : job.train.dtype;
}

bool shards_optimizer(const Job& job) {
  return deepspeed::runs(job) && deepspeed::optimizer_path(job) == deepspeed::OptimizerPath::bf16;
}

bool reduces_by_all_reduce(const Job& job) {
  return deepspeed::runs(job) || (job.framework == "commlens" && trainer::options(job).all_reduce_gradients);
}

bool reduces_every_micro_batch(const Job& job) {
  const auto reduces = rules_of(job).settings.reduces_every_micro_batch;
  return reduces != nullptr && reduces(job);
}

BoundaryParts boundary_parts(const Job& job) {
  if (job.layout.model_ranks() == 1) {
    return {};
  }
  if (deepspeed::runs(job)) {
    return {deepspeed::options(job).pipe_partitioned, deepspeed::options(job).grad_partitioned};
  }
  return {false, false};
}

}  // namespace commlens::paper
