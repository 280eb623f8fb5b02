// What DeepSpeed refuses and what the rules do not cover (release_checks.cpp has what its releases lack).
#include "commlens/frameworks/deepspeed/checks.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/module_messages.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"
#include "commlens/frameworks/deepspeed/zero3_reductions.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens::deepspeed {
namespace {

Result<void> check_experts(const Job& job) {
  const Options& own = options(job);
  const ModelConfig& model = job.model;
  const bool has_layers = !own.mixture.layers.empty();
  if (model.experts == 0) {
    return has_layers || own.auto_ep || job.layout.ep > 1
               ? failure("experts are asked for, but the model has none; give model.experts")
               : Result<void>{};
  }
  if (!has_layers && !own.auto_ep) {
    return failure(
        "a mixture of experts needs options.moe (which blocks have deepspeed.moe.layer.MoE) or "
        "expert_parallel in the DeepSpeed JSON");
  }
  if (has_layers == own.auto_ep) {
    return failure("options.moe and expert_parallel both place experts; leave one out");
  }
  if (model.experts % job.layout.ep != 0 || job.layout.dp % job.layout.ep != 0) {
    return failure(
        fmt::format("{} experts on {} data ranks cannot be shared by {} ranks; change layout.expert",
                    model.experts, job.layout.dp, job.layout.ep));
  }
  const std::int64_t peers = job.layout.model_ranks();
  if (!own.mixture.splits_experts && peers % job.layout.ep != 0 && job.layout.ep % peers != 0) {
    return failure(
        fmt::format("experts on {} ranks beside {} model-parallel ranks have no rules here; make one "
                    "a multiple of the other",
                    job.layout.ep, peers));
  }
  if (job.train.zero_stage == 3 && has_layers) {
    return failure(
        "DeepSpeed's own MoE is not supported with ZeRO-3, which it refuses; use expert_parallel or --zero "
        "0, 1 or 2");
  }
  if (job.train.zero_stage == 3 &&
      (job.train.hpz > 1 || job.train.quantized_weights || job.train.quantized_gradients)) {
    return failure("expert_parallel under ZeRO-3 with ZeRO++ has no rules here; leave ZeRO++ out");
  }
  if (job.train.zero_stage > 0 && (!own.contiguous_gradients || !own.reduce_scatter)) {
    return failure(
        "DeepSpeed's mixtures of experts need contiguous_gradients and reduce_scatter; leave both true");
  }
  const auto is_missing = [&](std::int64_t layer) { return layer >= model.layers; };
  if (std::any_of(own.mixture.layers.begin(), own.mixture.layers.end(), is_missing)) {
    return failure(
        fmt::format("options.moe.layers names a block that a model of {} does not have", model.layers));
  }
  if (has_layers && model.family != Family::gpt) {
    return failure("options.moe replaces the MLP of family gpt; use expert_parallel for llama");
  }
  if (own.has_data_before_experts && (peers > 1 || own.mixture.splits_experts)) {
    return failure(
        "use_data_before_expert_parallelism beside model-parallel ranks has no rules here; set it to false");
  }
  if (own.auto_ep && (model.family != Family::llama || model.top_k < 1)) {
    return failure("expert_parallel needs family llama with experts and top_k (Mixtral)");
  }
  return has_layers ? check_capacity(job) : Result<void>{};
}

Result<void> check_sequence(const Job& job) {
  const std::int64_t ranks = job.layout.cp;
  if (ranks == 1) {
    return options(job).has_sequence_loader
               ? failure("UlyssesSPDataLoaderAdapter needs layout.sequence above 1")
               : Result<void>{};
  }
  const std::int64_t data = options(job).mesh_data_ranks;
  if (data > 0 && data != job.layout.dp) {
    return failure(
        fmt::format("data_parallel_size is {}, but {} sequence ranks leave {} data ranks; make them agree",
                    data, ranks, job.layout.dp));
  }
  if (options(job).pipeline_engine || job.layout.model_ranks() > 1 || job.model.experts > 0) {
    return failure(
        "Ulysses' sequence parallelism beside a pipeline, tensor ranks or experts has no rules here; use one "
        "of them");
  }
  if (job.model.sequence % ranks != 0 || job.model.heads % ranks != 0) {
    return failure(fmt::format(
        "sequence parallelism over {} ranks needs a sequence and heads that they divide, not {} and "
        "{}",
        ranks, job.model.sequence, job.model.heads));
  }
  const std::int64_t keys = job.model.kv_heads;
  if (job.model.family == Family::llama && keys % ranks != 0 && ranks % keys != 0) {
    return failure(fmt::format("{} key-value heads cannot be shared by {} sequence ranks", keys, ranks));
  }
  if (job.train.hpz > 1) {
    return failure("zero_hpz_partition_size with sequence parallelism has no rules here; set it to 1");
  }
  return {};
}

Result<void> check_tensor(const Job& job) {
  if (job.layout.tp == 1 || job.layout.replicated_tp) {
    return {};
  }
  if (!options(job).auto_tp) {
    return not_covered(
        "framework deepspeed splits linears by AutoTP alone; set tensor_parallel.autotp_size in its JSON, "
        "use "
        "a case file with options.replicated_tensor_parallel");
  }
  if (options(job).autocast || (options(job).zero_init && job.train.zero_stage == 3)) {
    return failure(
        "AutoTP under torch_autocast, and of a model that zero.Init built, has no rules here; use one of "
        "them");
  }
  if (options(job).pipeline_engine || job.layout.replicate > 1 || job.model.experts > 0 ||
      job.train.hpz > 1) {
    return failure("AutoTP beside a pipeline, replicas, experts or hpZ has no rules here; use one of them");
  }
  if (job.model.family == Family::gpt && !options(job).tensor_specs) {
    return failure(
        "AutoTP finds no linears that it knows in family gpt; give "
        "tensor_parallel.partition_config.layer_specs");
  }
  if (const Result<void> ok = check_splits(job); !ok) {
    return ok;
  }
  const ModelConfig& model = job.model;
  for (const std::int64_t size : {model.heads, model.kv_heads, model.hidden, model.ffn_hidden}) {
    if (size % job.layout.tp != 0) {
      return failure(fmt::format("AutoTP over {} ranks splits heads and widths evenly here, not {}",
                                 job.layout.tp, size));
    }
  }
  return {};
}

/// The ranks of a node that share copies or exchange quantised gradients. Source: utils/groups.py:738
/// _get_local_all_to_all_group, :925 _create_zero_param_parallel_group of 0.19.8; runtime/zero/stage3.py:390.
Result<void> check_nodes(const Job& job) {
  const std::int64_t hpz = job.train.hpz;
  const std::int64_t peers = job.layout.model_ranks();
  if (hpz > 1 && peers % hpz != 0 && hpz % peers != 0) {
    return failure(
        fmt::format("zero_hpz_partition_size {} beside {} model-parallel ranks has no rules here; make one a "
                    "multiple of the other",
                    hpz, peers));
  }
  if (!job.train.quantized_gradients) {
    return {};
  }
  if (!options(job).reduce_scatter) {
    return failure("zero_quantized_gradients needs reduce_scatter, as DeepSpeed has it; leave it true");
  }
  const std::int64_t local = node_ranks(job);
  if (data_ranks(job) > local && data_ranks(job) % local != 0) {
    return failure(
        fmt::format("zero_quantized_gradients: {} ranks are not whole nodes of {}, which DeepSpeed refuses; "
                    "give options.gpus_per_node in a case file, or change the ranks",
                    data_ranks(job), local));
  }
  return {};
}

Result<void> check_zero3(const Job& job) {
  const Options& own = options(job);
  const std::int64_t hpz = job.train.hpz;
  if (hpz > 1 && (job.train.zero_stage != 3 || job.layout.dp % hpz != 0)) {
    return failure(
        fmt::format("zero_hpz_partition_size {} needs ZeRO-3 and must divide dp {}", hpz, job.layout.dp));
  }
  if (job.train.zero_stage != 3) {
    return {};
  }
  if (own.quantizes_nontrainable) {
    return failure("zero_quantized_nontrainable_weights has no rules here; set it to false");
  }
  if (const Result<void> ok = check_nodes(job); !ok) {
    return ok;
  }
  if (job.train.quantized_gradients && (job.layout.model_ranks() > 1 || job.layout.cp > 1)) {
    return failure("zero_quantized_gradients beside tensor or sequence ranks has no rules here");
  }
  return own.granularity > 0 || !(own.leaf_modules == LeafModules{}) ? check_leaf_modules(job)
                                                                     : Result<void>{};
}

/// engine.py:3239 coalesce_grad_reduction of 0.19.8. A block around the micro-batches counts as one of them.
Result<void> check_coalescing(const Job& job) {
  const Options& own = options(job);
  if (!own.coalesces_reductions) {
    return {};
  }
  const OptimizerPath path = optimizer_path(job);
  if (own.pipeline_engine || (path != OptimizerPath::zero12 && path != OptimizerPath::zero3)) {
    return failure(
        "coalesce_grad_reduction: DeepSpeed refuses it without ZeRO, under its BF16_Optimizer and in "
        "pipelines; use --zero 1, 2 or 3");
  }
  if (!own.manages_accumulation) {
    return failure("coalesce_grad_reduction: DeepSpeed refuses it with managed_gradient_accumulation false");
  }
  if (job.train.micro_batches > 1 && own.counted_steps != 1) {
    return failure(
        "coalesce_grad_reduction: all micro-batches of the block count as one; set "
        "gradient_accumulation_steps 1");
  }
  return {};
}

/// Checkpoints of the reentrant kind return no gradient where their input needs none.
Result<void> check_reentrant(const Job& job) {
  if (job.train.recompute != Recompute::full || !pass_options(job).is_reentrant ||
      options(job).pipeline_engine) {
    return {};
  }
  const ModelTree tree = model_tree(job);
  const bool is_cut = std::any_of(tree.modules.begin(), tree.modules.end(), [](const ModelModule& module) {
    return module.is_block && !module.needs_input_gradient;
  });
  return is_cut
             ? failure(
                   "options.checkpoint_reentrant: no gradient reaches the input of the first block, so that "
                   "nothing in it trains (torch.utils.checkpoint); use checkpoints that are not reentrant")
             : Result<void>{};
}

/// compute_grad_norm: false. Source: runtime/zero/config.py:390, runtime/zero/stage_1_and_2.py:212,
/// runtime/engine.py:2307 of 0.19.8.
Result<void> check_norm_switch(const Job& job) {
  const Options& own = options(job);
  if (own.computes_norm) {
    return {};
  }
  if (job.train.zero_stage != 1 && job.train.zero_stage != 2) {
    return failure("compute_grad_norm: false is for ZeRO-1 and 2, as DeepSpeed has it; leave it out");
  }
  if (job.train.gradient_clipping > 0 || own.offloads_optimizer) {
    return failure("compute_grad_norm: false needs gradient_clipping 0 and no offload, as DeepSpeed has it");
  }
  return optimizer_path(job) == OptimizerPath::zero12
             ? Result<void>{}
             : failure(
                   "compute_grad_norm: false is refused by DeepSpeed for bf16 whose gradients are summed in "
                   "fp32; leave one out");
}

/// Names of options that the model must have.
Result<void> check_names(const Job& job) {
  const Options& own = options(job);
  if (own.pipeline_engine || (own.frozen.empty() && own.low_rank.rank == 0 && own.gathered.modules.empty())) {
    return {};
  }
  const ModelTree tree = model_tree(job);
  const std::vector<std::string> names = tree.parameter_names();
  for (const std::string& frozen : own.frozen) {
    const auto begins = [&](const std::string& name) { return name.starts_with(frozen); };
    if (std::none_of(names.begin(), names.end(), begins)) {
      return failure(fmt::format("options.frozen: no parameter's name begins with '{}'", shown_text(frozen)));
    }
  }
  for (const std::string& target : own.low_rank.targets) {
    if (!is_one_of(target, "qkv proj fc1 fc2")) {
      return failure(
          fmt::format("options.lora.targets: a block has no linear '{}'; it has qkv, proj, fc1 and fc2",
                      shown_text(target)));
    }
  }
  for (const std::string& gathered : own.gathered.modules) {
    const auto is_it = [&](const ModelModule& module) { return module.name == gathered; };
    if (std::none_of(tree.modules.begin(), tree.modules.end(), is_it)) {
      return failure(
          fmt::format("options.gathered_parameters.modules: the model has no '{}'", shown_text(gathered)));
    }
  }
  return {};
}

Result<void> check_client(const Job& job) {
  const Options& own = options(job);
  if (!own.uncounted_passes.empty() && own.manages_accumulation && !own.coalesces_reductions) {
    return failure(own.uncounted_passes);
  }
  const bool is_plain_gpt =
      job.model.family == Family::gpt && !own.pipeline_engine && !is_of_transformers(job);
  if (own.low_rank.rank > 0 && !is_plain_gpt) {
    return failure("options.lora is for family gpt without a pipeline");
  }
  if ((own.low_rank.rank > 0 || !own.frozen.empty()) && own.pipeline_engine) {
    return failure("frozen parameters in a pipeline have no rules here");
  }
  if (!own.manages_accumulation && own.overlap_comm && job.train.zero_stage != 2) {
    return failure(
        "managed_gradient_accumulation: false is refused by DeepSpeed with overlap_comm but under ZeRO-2; "
        "set overlap_comm to false");
  }
  if (!own.skipped.iterations.empty() &&
      (job.train.zero_stage != 3 || own.skipped.block >= job.model.layers)) {
    return failure("options.skip_block is for ZeRO-3 and names one of the model's blocks");
  }
  if (!own.overflows_in.empty() && job.train.dtype != DType::fp16) {
    return failure("options.overflow_iterations is for fp16");
  }
  if (own.coalesces_reductions && job.train.zero_stage == 0) {
    return failure("coalesce_grad_reduction needs ZeRO, as DeepSpeed has it; use --zero 1 or 2");
  }
  if (is_of_transformers(job) && job.model.family != Family::llama) {
    return failure("transformers' models are of family llama here");
  }
  const std::int64_t root = own.gathered.modifier_rank.value_or(0);
  const std::int64_t sharing = shard_ranks(job) / job.layout.ep;
  if (!own.gathered.modules.empty() && (job.train.zero_stage != 3 || root >= sharing)) {
    return failure("options.gathered_parameters is for ZeRO-3, and its modifier_rank one of the data ranks");
  }
  return check_names(job);
}

Result<void> check_autocast(const Job& job) {
  if (!options(job).autocast) {
    return {};
  }
  if (job.train.quantized_weights) {
    return failure("torch_autocast with zero_quantized_weights is refused by DeepSpeed; leave one out");
  }
  if (job.train.dtype != DType::fp32) {
    return failure("torch_autocast is for a model in fp32; switch fp16 and bf16 off");
  }
  const bool is_zero12 = job.train.zero_stage == 1 || job.train.zero_stage == 2;
  if (is_zero12 && !behaviour(job).has_large_autocast) {
    const ModelTree tree = model_tree(job);
    const auto is_too_large = [&](const LocalParameter& parameter) {
      return parameter.is_cast && parameter.count > options(job).reduce_bucket_size;
    };
    if (std::any_of(tree.parameters.begin(), tree.parameters.end(), is_too_large)) {
      return failure(
          fmt::format("DeepSpeed {} fails on torch_autocast with a parameter larger than reduce_bucket_size; "
                      "make it larger",
                      behaviour(job).version.name));
    }
  }
  return {};
}

/// What DualPipeVEngine and its schedule assert. Source: runtime/pipe/dualpipev.py:102 of 0.19.8.
Result<void> check_dual_pipe(const Job& job) {
  const Options& own = options(job);
  if (job.train.micro_batches < 2 * job.layout.pp) {
    return failure(fmt::format(
        "DualPipeV needs gradient_accumulation_steps >= 2 x {} stages, got {}; raise --micro-batches",
        job.layout.pp, job.train.micro_batches));
  }
  if (job.layout.model_ranks() > 1 && (own.pipe_partitioned || own.grad_partitioned)) {
    return failure(
        "DualPipeV does not support pipe_partitioned or grad_partitioned; set both to false in the DeepSpeed "
        "JSON's 'pipeline'");
  }
  if (own.dynamic_shape) {
    return failure(
        "DualPipeV exchanges activation shapes once and does not support dynamic_shape; leave it out");
  }
  return {};
}

Result<void> check_pipeline(const Job& job) {
  const Options& own = options(job);
  if (!own.pipeline_engine) {
    return {};
  }
  if (job.train.zero_stage > 1) {
    return failure(fmt::format(
        "ZeRO-{} with a pipeline is refused by DeepSpeed (runtime/pipe/engine.py:73); use --zero 0 "
        "or 1",
        job.train.zero_stage));
  }
  if (own.autocast || own.saves_after || !own.evaluated_before.empty() || !own.overflows_in.empty()) {
    return failure("torch_autocast, evaluation, checkpoints and overflows in a pipeline have no rules here");
  }
  if (job.model.experts > 0 || own.coalesces_reductions || !own.manages_accumulation) {
    return failure(
        "experts, coalesce_grad_reduction and unmanaged backwards in a pipeline have no rules here");
  }
  return own.dual_pipe ? check_dual_pipe(job) : Result<void>{};
}

}  // namespace

void settle(Job& job) {
  Options& own = options(job);
  own.pipeline_engine = own.pipeline_engine || job.layout.pp > 1;
  own.auto_tp = own.auto_tp || (job.layout.splitting_ranks() > 1 && job.model.family == Family::llama);
  if (own.has_auto_values && job.model.family == Family::llama) {
    own.is_trainer = own.weight_decay_groups = true;
  }
  // The Trainer gives parameters without groups to an optimizer of the JSON. Source: transformers 5.23
  // integrations/deepspeed.py deepspeed_optim_sched.
  const bool is_of_json = own.is_trainer && own.optimizer != OptimizerKind::other;
  own.weight_decay_groups = own.weight_decay_groups && !is_of_json;
  TrainConfig& train = job.train;
  const bool was_changed = own.default_clipping && train.gradient_clipping != *own.default_clipping;
  train.clipping_is_given = train.clipping_is_given || was_changed;
  if (!train.clipping_is_given && (own.default_clipping || train.gradient_clipping == 0)) {
    own.default_clipping = train.gradient_clipping = behaviour(job).gradient_clipping;
  }
}

Result<void> check(const Job& job) {
  const std::string& name = job.framework;
  if (job.train.recompute == Recompute::selective) {
    return failure(fmt::format("{} has no selective recompute; use --recompute none or full", name));
  }
  if (job.layout.virtual_stages > 1 || job.train.schedule != Schedule::one_f_one_b) {
    return failure(fmt::format(
        "framework {} runs 1F1B pipelines only; leave --schedule and --virtual-stages out", name));
  }
  for (const auto part :
       {check_pipeline, check_zero3, check_release, check_accumulation, check_averaging, check_norm_switch}) {
    if (const Result<void> ok = part(job); !ok) {
      return ok;
    }
  }
  const std::int64_t activation = job.train.micro_batch * job.model.sequence * job.model.hidden;
  if (job.layout.model_ranks() > 1 && activation % job.layout.model_ranks() != 0) {
    return failure(
        fmt::format("an activation of {} elements is not divisible by {} tensor ranks; change --micro-batch, "
                    "--seq or --tp",
                    activation, job.layout.model_ranks()));
  }
  return {};
}

Result<void> check_plain(const Job& job) {
  for (const auto part : {check_tensor, check_experts, check_sequence, check_client, check_coalescing,
                          check_reentrant, check_autocast}) {
    if (const Result<void> ok = part(job); !ok) {
      return ok;
    }
  }
  if (job.layout.pp > 1 && !options(job).pipeline_engine) {
    return failure("pipeline parallelism needs DeepSpeed's pipeline engine; set options.engine: pipeline");
  }
  return check(job);
}

}  // namespace commlens::deepspeed
