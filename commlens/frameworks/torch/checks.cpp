#include "commlens/frameworks/torch/checks.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/model/version.hpp"

namespace commlens::pytorch {
namespace {

constexpr std::int64_t k_most_inputs = 1000;  // iterations of a join, each of which is written

Result<void> refuse(bool applies, std::string reason) {
  return applies ? Result<void>(failure(std::move(reason))) : Result<void>();
}

/// Whether the job's release precedes this one; the newest does not.
bool is_before(const Job& job, std::string_view release) {
  const std::array<KnownVersion, 2> lines = {{{"1", "", "1", ""}, {release, release, release, ""}}};
  return choose_version(lines, 1, job.framework_version).index == 0;
}

/// What releases lack.
Result<void> check_release(const Job& job) {
  const Options& own = options(job);
  const PipelineSchedule schedule = own.pipeline.schedule;
  const bool is_pipeline = job.layout.pp > 1;
  const bool is_v = is_pipeline && pipeline_shape(job).is_v_shaped();
  const bool is_dynamic = is_pipeline && !own.pipeline.has_static_shapes;
  struct Since {
    bool is_used;
    std::string_view release;
    std::string_view name;
  };
  const std::array<Since, 9> all = {{
      {own.ddp.is_used && !own.ddp.init_sync, "2.7", "init_sync of DDP"},
      {own.ddp.is_used && own.ddp.skip_all_reduce_unused_params, "2.8",
       "skip_all_reduce_unused_params of DDP"},
      {own.ddp.is_used && !own.ddp.bucket_caps.empty(), "2.11", "bucket_cap_mb_list of DDP"},
      {own.fsdp.is_used && own.fsdp.is_replicate, "2.9", "api replicate of fsdp"},
      {own.fsdp.is_used && own.fsdp.reduce_scatter_unused_params, "2.13",
       "reduce_scatter_unused_params of fsdp"},
      {is_pipeline && schedule == PipelineSchedule::dual_pipe_v, "2.9", "schedule DualPipeV"},
      {is_pipeline && schedule == PipelineSchedule::from_file, "2.10", "rules for a schedule from a csv"},
      {is_v && is_dynamic, "2.9", "V schedules with dynamic shapes (they fail)"},
      {is_dynamic && job.layout.tp > 1, "2.9", "pipelines of tensor ranks with dynamic shapes (they fail)"},
  }};
  for (const Since& since : all) {
    if (since.is_used && is_before(job, since.release)) {
      return failure(fmt::format("PyTorch {} has no {}: it needs {} or later", job.framework_version,
                                 since.name, since.release));
    }
  }
  const bool scales_partial =
      is_pipeline && job.layout.tp > 1 && job.layout.sequence_parallel && !own.fsdp.is_used;
  return refuse(
      scales_partial && !is_before(job, "2.10") && is_before(job, "2.12"),
      "PyTorch 2.10 and 2.11 fail to scale the norms' gradients in a pipeline of tensor ranks with sequence "
      "parallelism and without FSDP");
}

Result<void> check_model(const Job& job) {
  const ModelConfig& model = job.model;
  const bool is_llama =
      model.family == Family::llama && !model.linear_bias && !model.qkv_bias && !model.norm_bias;
  const bool is_gpt = model.family == Family::gpt && model.linear_bias && model.norm_bias && !model.gated_mlp;
  if (!is_llama && !is_gpt) {
    return failure(
        "the torch rules have the module trees llama (no biases, RMSNorm) and gpt (biases, "
        "LayerNorm, no gated MLP) alone");
  }
  if (model.experts > 0) {
    return not_covered("the torch rules have no mixtures of experts");
  }
  if (job.layout.tp * job.layout.cp > 1 && !is_llama) {
    return not_covered("the torch rules have tensor and context parallelism of llama models alone");
  }
  return refuse(model.tied_embeddings && job.layout.pp > 1,
                "the stages of a pipeline cannot share a parameter; set tied_embeddings to false");
}

/// "layers.3" and "layers.3.feed_forward" can be left out of the forward pass; something has to be trained.
Result<void> check_parts(const Job& job) {
  const ModelConfig& model = job.model;
  std::set<std::string> names;
  for (std::int64_t layer = 0; layer < model.layers && !model.unused.empty(); ++layer) {
    names.insert(fmt::format("layers.{}", layer));
    names.insert(fmt::format("layers.{}.feed_forward", layer));
  }
  for (const std::string& name : model.unused) {
    if (!names.contains(name)) {
      return failure(
          fmt::format("unused has '{}'; the torch rules leave out layers.N or layers.N.feed_forward",
                      name.substr(0, 60)));
    }
  }
  if (model.frozen.empty()) {
    return {};
  }
  const std::int64_t stages = job.layout.pp * job.layout.virtual_stages;
  std::set<std::string> patterns(model.frozen.begin(), model.frozen.end());
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    bool is_trained = false;
    for (const Module& module : stage_modules(job, stage, stages)) {
      for (const Parameter& parameter : module.parameters) {
        is_trained = is_trained || parameter.is_trainable;
        std::erase_if(patterns, [&](const std::string& pattern) { return matches(pattern, parameter.name); });
      }
    }
    if (!is_trained && (stages == 1 || options(job).ddp.is_used)) {
      return failure("frozen leaves no parameter to train");
    }
  }
  return refuse(!patterns.empty(), fmt::format("frozen has '{}', which no parameter matches",
                                               patterns.empty() ? "" : patterns.begin()->substr(0, 60)));
}

/// Linears and the embedding compute together, norms cast.
Result<void> check_dtypes(const Job& job) {
  const Options& own = options(job);
  if (!job.model.fp32_patterns.empty() && job.train.dtype != DType::bf16) {
    return failure("fp32_patterns are of a model in bf16; set precision to bf16");
  }
  if (job.model.fp32_patterns.empty() || (own.fsdp.is_used && own.fsdp.param_dtype)) {
    return {};
  }
  std::set<DType> dtypes;
  for (const Module& module : stage_modules(job, 0, 1)) {
    for (const Parameter& parameter : module.parameters) {
      if (parameter.dimensions > 1) {
        dtypes.insert(parameter.dtype);
      }
    }
  }
  return refuse(
      dtypes.size() > 1,
      "fp32_patterns leave linears and embeddings of two dtypes, which PyTorch does not multiply; only norms "
      "may differ, or param_dtype of fsdp");
}

Result<void> check_schedule(const Job& job) {
  const std::int64_t stages = job.layout.pp * job.layout.virtual_stages;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    if (stage_layers(job.model.layers, stage, stages).count < 1) {
      return failure(
          fmt::format("{} layers are too few for {} stages of the pipeline", job.model.layers, stages));
    }
  }
  if (const Result<void> ok = check(pipeline_shape(job)); !ok || !runs_in_lock_step(job)) {
    return ok;
  }
  const auto actions = lock_step_actions(pipeline_shape(job));
  return actions ? Result<void>() : tl::unexpected(actions.error());
}

Result<void> check_layout(const Job& job) {
  const ParallelLayout& layout = job.layout;
  const Options& own = options(job);
  if (layout.dp % data_shard(job) != 0) {
    return failure("the data ranks are no multiple of data_shard");
  }
  if (layout.pp > 1) {
    if (const Result<void> ok = check_schedule(job); !ok) {
      return ok;
    }
  }
  if (layout.ep * layout.replicate > 1) {
    return not_covered("the torch rules have no expert parallelism and no replicated tensor ranks");
  }
  if (job.train.zero_stage > 0) {
    return not_covered("--zero: PyTorch has no ZeRO stages; leave it out (fsdp shards all states, ddp none)");
  }
  if (layout.dp > 1 && !own.ddp.is_used && !own.fsdp.is_used) {
    return failure("several data ranks need a section ddp or fsdp");
  }
  if (own.ddp.is_used && (own.fsdp.is_used || layout.tp * layout.cp > 1)) {
    return not_covered(
        "the torch rules have DDP of whole models alone, without FSDP, tensor or context parallelism");
  }
  return {};
}

Result<void> check_ddp(const Job& job) {
  const Ddp& ddp = options(job).ddp;
  const std::vector<std::int64_t>& inputs = ddp.join_inputs;
  if (!ddp.is_used) {
    return {};
  }
  if (!job.model.unused.empty() && !ddp.find_unused_parameters && !ddp.static_graph) {
    return failure(
        "DDP stops in its second iteration where parameters are unused; set "
        "find_unused_parameters or static_graph");
  }
  if (ddp.mixed_dtype && (!ddp.mixed_parameters || ddp.find_unused_parameters)) {
    return failure(
        "mixed_precision of DDP fails without param_dtype, and with find_unused_parameters (it marks "
        "parameters as ready twice)");
  }
  if (job.model.has_batch_norm && ddp.mixed_parameters && ddp.mixed_buffers != ddp.mixed_parameters) {
    return failure(
        "mixed_precision of DDP computes batch norm in two dtypes, which PyTorch does not; set buffer_dtype "
        "to param_dtype");
  }
  if (std::any_of(inputs.begin(), inputs.end(), [](std::int64_t count) { return count > k_most_inputs; })) {
    return failure(fmt::format("join takes at most {} inputs of a rank", k_most_inputs));
  }
  return refuse(!inputs.empty() && static_cast<std::int64_t>(inputs.size()) != job.layout.dp,
                "join needs the inputs of each data rank");
}

/// Each module is in one unit, and one is the root.
Result<void> check_units(const Job& job) {
  const std::vector<Unit>& units = options(job).fsdp.units;
  const auto count = [&](std::initializer_list<Unit> some) {
    return std::count_if(units.begin(), units.end(),
                         [&](Unit unit) { return std::find(some.begin(), some.end(), unit) != some.end(); });
  };
  if (count({Unit::root}) != 1) {
    return failure("fsdp needs the unit root, once");
  }
  if (count({Unit::embedding, Unit::embedding_with_head}) > 1 ||
      count({Unit::head_with_norm, Unit::embedding_with_head}) > 1 ||
      count({Unit::blocks, Unit::block_pairs}) > 1) {
    return failure("units of fsdp wrap a module twice");
  }
  if (job.layout.pp > 1 && count({Unit::embedding_with_head}) > 0) {
    return failure("the unit embedding_with_head has no place in a pipeline");
  }
  const bool has_unused_blocks =
      std::any_of(job.model.unused.begin(), job.model.unused.end(),
                  [](const std::string& name) { return !name.ends_with(".feed_forward"); });
  if (has_unused_blocks && count({Unit::block_pairs}) > 0) {
    return failure("the torch rules have no pairs of blocks of which one is unused; use the unit blocks");
  }
  if (are_embeddings_tied(job) && count({Unit::embedding, Unit::head_with_norm}) > 0) {
    return failure(
        "tied embeddings are a parameter of two units; use embedding_with_head, or leave both to the root");
  }
  const Fsdp& fsdp = options(job).fsdp;
  const std::int64_t blocks = job.model.layers / (job.layout.pp * job.layout.virtual_stages);
  return refuse(
      fsdp.forward_prefetch + fsdp.backward_prefetch > 0 && blocks > 1 && count({Unit::blocks}) == 0,
      "forward_prefetch and backward_prefetch name blocks, which need the unit blocks");
}

/// A group is flattened, or reduced, in one dtype.
Result<void> check_groups(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  const bool counts_all = fsdp.version == 1 || is_before(job, "2.8");
  const std::vector<Module> modules = stage_modules(job, 0, 1);
  for (const ShardUnit& unit : shard_units(job, modules)) {
    const ShardGroup& group = unit.groups.front();
    std::set<DType> dtypes;
    std::set<bool> trainable;
    for (const Parameter* const parameter : group.parameters) {
      trainable.insert(parameter->is_trainable);
      if (counts_all || parameter->is_trainable) {
        dtypes.insert(parameter->dtype);
      }
    }
    if (dtypes.size() > 1) {
      return failure(fmt::format("fsdp needs one dtype of the parameters of a unit; {} has two",
                                 group.parameters.front()->name));
    }
    if (fsdp.version == 1 && !fsdp.use_orig_params && trainable.size() > 1) {
      return failure(
          "fsdp version 1 without use_orig_params needs units that are frozen as a whole or not at all");
    }
  }
  return {};
}

/// Tensor ranks hold equal shards, also where the vocabulary does not divide.
Result<void> check_uneven(const Job& job) {
  const std::int64_t vocab = job.model.raw_vocab > 0 ? job.model.raw_vocab : job.model.vocab;
  const std::int64_t tp = job.layout.tp;
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  const std::int64_t most = ceil_div(vocab, tp);
  const std::int64_t least = std::clamp<std::int64_t>(vocab - (tp - 1) * most, 0, most);
  const bool differs = shard == 1 ? most != least : ceil_div(most, shard) != ceil_div(least, shard);
  return refuse(
      tp > 1 && differs,
      fmt::format("a vocabulary of {} gives {} tensor ranks shards of other sizes, of which the torch rules "
                  "with fsdp have none; pad it to a multiple of {}",
                  vocab, tp, tp * shard));
}

Result<void> check_part(const Job& job) {
  const Options& own = options(job);
  const std::int64_t part = own.fsdp.reshard_after_forward.size;
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  const bool fits = part == 0 || job.layout.cp % part == 0 ||
                    (part % job.layout.cp == 0 && data_shard(job) % (part / job.layout.cp) == 0);
  if (!fits || part > shard) {
    return failure(
        fmt::format("reshard_after_forward {} does not divide the {} ranks of a shard group", part, shard));
  }
  return refuse(part > 1 && part < shard && job.layout.tp > 1,
                "fully_shard refuses a number for reshard_after_forward with tensor parallelism");
}

Result<void> check_version_1(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  const bool is_hybrid =
      fsdp.strategy == FsdpStrategy::hybrid || fsdp.strategy == FsdpStrategy::hybrid_grad_op;
  const std::int64_t shard = data_shard(job);
  if (is_hybrid ? shard == 1 || shard == job.layout.dp : shard != job.layout.dp) {
    return failure(
        is_hybrid
            ? "the hybrid strategies of fsdp version 1 need data_replicate and data_shard of more than 1"
            : "data_replicate of fsdp version 1 needs the strategy HYBRID_SHARD or _HYBRID_SHARD_ZERO2");
  }
  if (fsdp.units != std::vector{Unit::blocks, Unit::root}) {
    return failure("the torch rules have the units [blocks, root] of fsdp version 1 alone");
  }
  return refuse(fsdp.sync_module_states && job.model.has_batch_norm,
                "the torch rules have no buffers with sync_module_states");
}

Result<void> check_fsdp(const Job& job) {
  const Options& own = options(job);
  const Fsdp& fsdp = own.fsdp;
  if (!fsdp.is_used) {
    return {};
  }
  if (fsdp.version == 1 && job.layout.tp * job.layout.cp * job.layout.pp > 1) {
    return failure("the torch rules have fsdp version 1 of data ranks alone; use version 2");
  }
  if (fsdp.version == 1) {
    if (const Result<void> ok = check_version_1(job); !ok) {
      return ok;
    }
  }
  if (fsdp.is_replicate && data_shard(job) * job.layout.cp > 1) {
    return failure("api replicate of fsdp shards nothing: set data_shard and context to 1");
  }
  if (job.layout.cp > 1 && job.layout.dp > data_shard(job)) {
    return failure("the torch rules have no hybrid sharding with context parallelism");
  }
  if (job.model.has_batch_norm && fsdp.param_dtype.value_or(job.train.dtype) != job.train.dtype) {
    return failure(
        "param_dtype of fsdp computes batch norm in two dtypes, which PyTorch does not; leave param_dtype "
        "or the buffers out");
  }
  for (const auto each : {check_units, check_part, check_uneven}) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return job.model.is_whole() ? Result<void>() : check_groups(job);
}

Result<void> check_pipeline(const Job& job) {
  const Options& own = options(job);
  if (job.layout.pp == 1) {
    return {};
  }
  if (!job.model.unused.empty() || job.model.has_batch_norm) {
    return failure("the torch rules have no unused parts and no buffers in a pipeline");
  }
  if (own.trainer.clip) {
    return failure("torch.distributed.pipelining has no norm over the stages of a pipeline; leave clip out");
  }
  const Fsdp& fsdp = own.fsdp;
  if (fsdp.is_used &&
      !(fsdp.sync_each_micro_batch && fsdp.all_reduce_each_micro_batch && fsdp.reshard_after_backward)) {
    return failure(
        "a pipeline decides by itself when fsdp reduces and reshards: leave sync_each_micro_batch, "
        "all_reduce_each_micro_batch and reshard_after_backward out");
  }
  if (own.pipeline.schedule == PipelineSchedule::gpipe && behaviour(job).gpipe_needs_micro_batches &&
      job.train.micro_batches < job.layout.pp) {
    return failure(fmt::format("GPipe of this release needs at least {} micro-batches, one for each stage",
                               job.layout.pp));
  }
  return refuse(
      own.ddp.is_used && (own.ddp.static_graph || !own.ddp.join_inputs.empty()),
      "the torch rules have no static_graph (which counts forward passes that synchronise; a schedule runs "
      "them without) and no join of DDP in a pipeline");
}

/// Tokens divide evenly wherever they are split.
Result<void> check_tokens(const Job& job) {
  const ParallelLayout& layout = job.layout;
  const std::int64_t tensor = layout.sequence_parallel ? layout.tp : 1;
  if (job.model.sequence % (layout.cp * tensor) != 0) {
    return failure(
        fmt::format("a sequence of {} does not divide into the {} ranks of context and tensor "
                    "parallelism; use a multiple",
                    job.model.sequence, layout.cp * tensor));
  }
  return refuse(
      layout.cp > 1 && options(job).balances_context && job.model.sequence % (2 * layout.cp) != 0,
      "load_balance of context_parallel cuts a sequence into two parts for each rank; use a multiple "
      "of them, or set it to false");
}

Result<void> check_clip(const Job& job) {
  if (options(job).trainer.norm_full_tensor && !options(job).fsdp.is_used) {
    return failure("the torch rules have norm_full_tensor with fsdp alone");
  }
  return refuse(options(job).trainer.clip && job.layout.tp > 1 && !job.layout.sequence_parallel,
                "clip_grad_norm_ fails where some gradients are DTensors and others are not: tensor "
                "parallelism without sequence parallelism");
}

Result<void> check_optimizer(const Job& job) {
  const Options& own = options(job);
  return refuse(
      own.trainer.optimizer == Optimizer::adamw_foreach && job.layout.tp > 1 &&
          !job.layout.sequence_parallel && !own.fsdp.is_used,
      "adamw_foreach fails where some parameters are DTensors and others are not: tensor parallelism "
      "without sequence parallelism; use adamw");
}

}  // namespace

Result<void> check_job(const Job& job) {
  using Check = Result<void> (*)(const Job&);
  for (const Check each : {check_release, check_model, check_layout, check_parts, check_dtypes, check_ddp,
                           check_fsdp, check_pipeline, check_tokens, check_clip, check_optimizer}) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return refuse(job.train.recompute == Recompute::selective,
                "the torch rules have no selective activation checkpointing; use full or none");
}

std::vector<std::string> never_recorded(const Job& job) {
  const Options& own = options(job);
  const bool is_pipeline = job.layout.pp > 1;
  const bool is_tensor = job.layout.tp > 1;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.layers % (job.layout.pp * job.layout.virtual_stages) != 0, "stages of unequal layers");
  add(job.layout.cp > 1 && own.ring == RingMethod::kv_all_gather, "kv_all_gather");
  add(is_pipeline && own.pipeline.schedule == PipelineSchedule::from_file, "a schedule from a csv");
  add(is_pipeline && job.layout.cp > 1, "context parallelism in a pipeline");
  add(is_pipeline && is_tensor && own.tensor.loss_parallel, "loss_parallel in a pipeline");
  add(is_pipeline && job.train.recompute != Recompute::none, "activation checkpointing in a pipeline");
  add(is_pipeline && !job.model.frozen.empty(), "frozen parameters in a pipeline");
  add(is_pipeline && job.model.family == Family::gpt, "gpt models in a pipeline");
  add(is_pipeline && job.train.dtype != DType::fp32, "a pipeline of bf16 or fp16 parameters");
  add(job.layout.cp > 1 && is_before(job, "2.15"), "context parallelism before 2.15");
  add(is_pipeline && pipeline_shape(job).is_v_shaped() && own.ddp.is_used && is_before(job, "2.15"),
      "DDP under V schedules before 2.15");
  return reasons;
}

}  // namespace commlens::pytorch
