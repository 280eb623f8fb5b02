#include "commlens/frameworks/torch/checks.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"

namespace commlens::pytorch {
namespace {

Result<void> refuse(bool applies, std::string reason) {
  return applies ? Result<void>(failure(std::move(reason))) : Result<void>();
}

Result<void> check_model(const Job& job) {
  const ModelConfig& model = job.model;
  const bool is_llama = model.family == Family::llama && !model.linear_bias && !model.norm_bias;
  const bool is_gpt = model.family == Family::gpt && model.linear_bias && model.norm_bias && !model.gated_mlp;
  if (!is_llama && !is_gpt) {
    return failure(
        "the torch rules have the module trees llama (no biases, RMSNorm) and gpt (biases, "
        "LayerNorm, no gated MLP) alone");
  }
  if (model.experts > 0) {
    return failure("the torch rules have no mixtures of experts");
  }
  return refuse(job.layout.tp > 1 && !is_llama,
                "the torch rules have tensor parallelism of llama models alone");
}

Result<void> check_pipeline(const Job& job) {
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
    if (const Result<void> ok = check_pipeline(job); !ok) {
      return ok;
    }
  }
  if (layout.ep * layout.replicate > 1) {
    return failure("the torch rules have no expert parallelism and no replicated tensor ranks");
  }
  if (job.train.zero_stage > 0) {
    return failure("PyTorch has no ZeRO stages; use framework torch-fsdp");
  }
  if (layout.dp > 1 && !own.ddp.is_used && !own.fsdp.is_used) {
    return failure("several data ranks need a section ddp or fsdp");
  }
  return refuse(
      own.ddp.is_used && (own.fsdp.is_used || layout.tp * layout.cp > 1),
      "the torch rules have DDP of whole models alone, without FSDP, tensor or context parallelism");
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
  return refuse(!inputs.empty() && static_cast<std::int64_t>(inputs.size()) != job.layout.dp,
                "join needs the inputs of each data rank");
}

Result<void> check_fsdp(const Job& job) {
  const Options& own = options(job);
  const Fsdp& fsdp = own.fsdp;
  if (!fsdp.is_used) {
    return {};
  }
  if (std::count(fsdp.units.begin(), fsdp.units.end(), Unit::root) != 1) {
    return failure("fsdp needs the unit root, once");
  }
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  const std::int64_t part = fsdp.reshard_after_forward.size;
  const bool fits = part == 0 || job.layout.cp % part == 0 ||
                    (part % job.layout.cp == 0 && data_shard(job) % (part / job.layout.cp) == 0);
  if (!fits || part > shard) {
    return failure(
        fmt::format("reshard_after_forward {} does not divide the {} ranks of a shard group", part, shard));
  }
  if (part > 0 && job.layout.tp > 1) {
    return failure("fully_shard refuses a number for reshard_after_forward with tensor parallelism");
  }
  return refuse(job.layout.cp > 1 && job.layout.dp > data_shard(job),
                "the torch rules have no hybrid sharding with context parallelism");
}

Result<void> check_clip(const Job& job) {
  return refuse(options(job).trainer.clip && job.layout.tp > 1 && !job.layout.sequence_parallel,
                "clip_grad_norm_ fails where some gradients are DTensors and others are not: tensor "
                "parallelism without sequence parallelism");
}

}  // namespace

Result<void> check_job(const Job& job) {
  using Check = Result<void> (*)(const Job&);
  for (const Check each : {check_model, check_layout, check_ddp, check_fsdp, check_clip}) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return refuse(job.train.recompute == Recompute::selective,
                "the torch rules have no selective activation checkpointing; use full or none");
}

}  // namespace commlens::pytorch
