// Settings of torchtitan that follow from others, and those of jobs that other configurations describe.
#include "commlens/frameworks/torchtitan/settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/frameworks/torch/schedules.hpp"
#include "commlens/frameworks/torchtitan/registry.hpp"

namespace commlens::torchtitan {
namespace {

bool has_one_stage(pytorch::PipelineSchedule schedule) {
  return pytorch::usual_schedule(schedule) != Schedule::interleaved;
}

pytorch::PipelineSchedule schedule_of(Schedule schedule) {
  return schedule == Schedule::gpipe         ? pytorch::PipelineSchedule::gpipe
         : schedule == Schedule::interleaved ? pytorch::PipelineSchedule::interleaved_1f1b
                                             : pytorch::PipelineSchedule::one_f_one_b;
}

/// Stages of a rank where nothing else is said.
std::int64_t usual_stages(const Job& job) {
  const Options& own = options(job);
  if (has_one_stage(own.schedule)) {
    return 1;
  }
  const std::optional<std::int64_t> stages =
      own.layers_per_stage ? stages_per_rank({job.model.layers, own.first_stage_less_layers,
                                              own.last_stage_less_layers, *own.layers_per_stage},
                                             job.layout.pp)
                           : std::nullopt;
  return stages.value_or(2);
}

void settle_schedule(Job& job) {
  Options& own = options(job);
  if (pytorch::usual_schedule(own.schedule) != job.train.schedule) {  // --schedule, --virtual-stages
    own.schedule = schedule_of(job.train.schedule);
  }
  std::int64_t& stages = job.layout.virtual_stages;
  if (job.layout.pp == 1 || has_one_stage(own.schedule)) {
    stages = 1;
    return;
  }
  if (stages < 2) {
    stages = usual_stages(job);
  } else if (own.layers_per_stage && stages != usual_stages(job)) {
    own.layers_per_stage.reset();
    job.warnings.emplace_back(
        "the flags change the stages: pipeline_parallel_layers_per_stage no longer holds");
  }
}

/// Micro-batches that a pipeline cuts the local batch into.
std::int64_t cuts(const Options& own) {
  return own.local_batch % own.pipeline_micro_batch == 0 ? own.local_batch / own.pipeline_micro_batch : 1;
}

/// The batch of a rank is cut where there is a pipeline, and only there.
void settle_batch(Job& job) {
  Options& own = options(job);
  TrainConfig& train = job.train;
  const bool was_cut = own.settled_pp > 1;
  const bool is_cut = job.layout.pp > 1;
  const bool is_divisible = own.local_batch % own.pipeline_micro_batch == 0;
  if (is_cut && !was_cut && train.micro_batch == own.local_batch && is_divisible) {
    const bool is_asked_for = job.global_batch == 0 && train.micro_batches != 1;  // --micro-batches
    train.micro_batch = own.pipeline_micro_batch;
    train.micro_batches = is_asked_for || train.micro_batches < 1
                              ? train.micro_batches
                              : saturating_product(train.micro_batches, cuts(own));
  } else if (!is_cut && was_cut && train.micro_batch == own.pipeline_micro_batch &&
             (train.micro_batches == cuts(own) || job.global_batch > 0) &&
             train.micro_batches % cuts(own) == 0) {
    train.micro_batch = own.local_batch;
    train.micro_batches /= cuts(own);
  }
  own.settled_pp = job.layout.pp;
  own.accumulation_steps = 1;
  if (!is_cut) {
    own.local_batch = train.micro_batch > 0 ? train.micro_batch : own.local_batch;
    return;
  }
  const std::int64_t of_a_micro_batch = saturating_product(train.micro_batch, job.layout.dp);
  const std::int64_t decided = of_a_micro_batch > 0 ? job.global_batch / of_a_micro_batch : 0;
  const std::int64_t all = train.micro_batches > 0 ? train.micro_batches : decided;
  if (!was_cut && cuts(own) < job.layout.pp && train.micro_batch == own.pipeline_micro_batch && all > 0) {
    own.local_batch = saturating_product(train.micro_batch, all);  // flags made the pipeline: one pass of all
  }
  if (job.global_batch > 0 && train.micro_batch == own.pipeline_micro_batch && all > 0 &&
      all % cuts(own) == 0) {
    own.accumulation_steps = all / cuts(own);
  }
}

/// On unless switched off, from two tensor ranks on.
void settle_sequence(Job& job) {
  Options& own = options(job);
  if (job.layout.tp > 1 && own.settled_tp == 1 && own.splits_sequence) {
    job.layout.sequence_parallel = true;
  }
  own.settled_tp = job.layout.tp;
}

/// ", tp 8", the degrees that a recipe sets.
std::string degrees_text(const Recipe& recipe) {
  return (recipe.tp > 1 ? fmt::format(", tp {}", recipe.tp) : "") +
         (recipe.ep > 1 ? fmt::format(", ep {}", recipe.ep) : "");
}

/// The configuration that trains a model of these sizes, or the defaults with its sequence.
TrainerConfig usual_config(Job& job) {
  const Flavour* const flavour = flavour_like(job.model);
  const Recipe* const recipe = flavour == nullptr ? nullptr : recipe_of(*flavour);
  TrainerConfig config = recipe == nullptr ? TrainerConfig{} : config_of(*recipe);
  if (recipe == nullptr) {
    config.sequence = job.model.sequence;
  } else {
    job.warnings.push_back(fmt::format(
        "torchtitan's own settings of {}: {} sequence{} of {} tokens a rank{}{}; flags change them",
        recipe->name, recipe->local_batch, recipe->local_batch == 1 ? "" : "s", recipe->sequence,
        degrees_text(*recipe),
        recipe->not_modelled.empty() ? "" : fmt::format(", without {}", recipe->not_modelled)));
  }
  if (flavour != nullptr) {
    config.module = flavour->module;
    options(job).flavour = flavour->name;
  }
  return config;
}

/// Layout, batch and recomputation as they are.
void keep(Job& job) {
  Options& own = options(job);
  TrainConfig& train = job.train;
  const Flavour* const flavour = flavour_like(job.model);
  own.module = flavour == nullptr ? "" : flavour->module;
  own.flavour = flavour == nullptr ? "" : flavour->name;
  own.param_dtype = train.dtype == DType::fp32 ? DType::fp32 : DType::bf16;
  if (train.dtype == DType::fp16) {
    job.warnings.emplace_back("torchtitan has no fp16: parameters are gathered in bf16");
  }
  train.dtype = DType::fp32;
  own.schedule = schedule_of(job.layout.virtual_stages > 1 ? Schedule::interleaved : train.schedule);
  train.schedule = pytorch::usual_schedule(own.schedule);
  own.splits_sequence = job.layout.tp == 1 || job.layout.sequence_parallel;
  own.pipeline_micro_batch = std::max<std::int64_t>(train.micro_batch, 1);
  own.local_batch = job.layout.pp == 1 ? own.pipeline_micro_batch
                                       : saturating_product(own.pipeline_micro_batch,
                                                            std::max<std::int64_t>(train.micro_batches, 1));
  own.settled_tp = job.layout.tp;
  own.settled_pp = job.layout.pp;
  own.balances_experts = job.model.experts > 0;
  if (train.gradient_clipping == 0) {
    train.gradient_clipping = TrainerConfig{}.max_norm;  // torchtitan always clips
  }
}

}  // namespace

std::optional<std::int64_t> stages_per_rank(const StageLayers& stages, std::int64_t ranks) {
  std::int64_t layers = 0;
  if (stages.per_stage < 1 || ranks < 1 ||
      __builtin_add_overflow(stages.layers, stages.first_less, &layers) ||
      __builtin_add_overflow(layers, stages.last_less, &layers)) {
    return std::nullopt;
  }
  const std::int64_t all = layers / stages.per_stage + (layers % stages.per_stage == 0 ? 0 : 1);
  return all % ranks == 0 ? std::optional(all / ranks) : std::nullopt;
}

void apply(const TrainerConfig& config, Job& job) {
  Options& own = options(job);
  ParallelLayout& layout = job.layout;
  TrainConfig& train = job.train;
  own.module = config.module;
  own.config = config.config;
  own.replicate = config.replicate;
  own.reshard_after_forward = config.reshard;
  own.param_dtype = config.param_dtype;
  own.is_offloaded = config.is_offloaded;
  own.loss_chunks = config.loss_chunks;
  own.steps = config.steps;
  own.log_frequency = config.log_frequency;
  own.seed = config.seed;
  own.forces_balance = config.forces_balance;
  own.schedule = config.schedule;
  own.first_stage_less_layers = config.first_stage_less_layers;
  own.last_stage_less_layers = config.last_stage_less_layers;
  own.layers_per_stage = config.layers_per_stage;
  own.checkpoints = config.checkpoints;
  own.local_batch = config.local_batch;
  own.pipeline_micro_batch = config.pipeline_micro_batch;
  own.splits_sequence = config.splits_sequence;
  own.settled_tp = config.tp;
  own.settled_pp = config.pp;
  layout.tp = config.tp;
  layout.pp = config.pp;
  layout.cp = config.cp;
  layout.ep = job.model.experts > 0 ? config.ep : 1;  // without effect on dense models
  layout.dp = saturating_product(config.replicate, config.shard);
  layout.sequence_parallel = config.splits_sequence && config.tp > 1;
  layout.virtual_stages = config.pp > 1 ? usual_stages(job) : 1;
  job.global_batch = config.global_batch;
  train.micro_batch = config.pp > 1 ? config.pipeline_micro_batch : config.local_batch;
  train.micro_batches = config.global_batch > 0 ? 0 : config.pp > 1 ? cuts(own) : 1;
  train.dtype = config.dtype;
  train.schedule = pytorch::usual_schedule(config.schedule);
  train.gradient_clipping = config.max_norm;
  set_recompute(job, config.recompute);
  job.model.sequence = job.model.max_positions = config.sequence;
}

void adopt(Job& job) {
  if (job.train.zero_stage > 0) {
    job.warnings.push_back(fmt::format("{} has no ZeRO: stage {} of the configuration is skipped", k_name,
                                       job.train.zero_stage));
    job.train.zero_stage = 0;
  }
  job.train.partition_activations = false;
  if (job.is_converted) {
    apply(usual_config(job), job);
    options(job).balances_experts = job.model.experts > 0;
  } else {
    keep(job);
  }
}

void settle(Job& job) {
  settle_schedule(job);
  settle_batch(job);
  settle_sequence(job);
}

void set_sequence_parallelism(Job& job, bool is_on) { options(job).splits_sequence = is_on; }

std::string sharding_text(const Job& job) {
  const std::int64_t replicas = std::max<std::int64_t>(options(job).replicate, 1);
  const std::int64_t shard = std::max<std::int64_t>(job.layout.dp / replicas, 1) * job.layout.cp;
  if (shard == 1) {
    return replicas == 1 ? "states not sharded" : fmt::format("DDP over {} ranks", replicas);
  }
  return fmt::format("FSDP2 over {} ranks{}", shard,
                     replicas == 1 ? "" : fmt::format(", {} replicas", replicas));
}

}  // namespace commlens::torchtitan
