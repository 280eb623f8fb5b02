// What has no rules is refused by name.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "commlens/config/tree.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/states.hpp"
#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {
namespace {

Result<void> refuse_if(bool applies, std::string reason) {
  return applies ? Result<void>(failure(std::move(reason))) : Result<void>();
}

Result<void> check_model(const Job& job) {
  const ModelConfig& model = job.model;
  if (model.family == Family::gpt) {
    return not_covered(fmt::format(
        "the hf rules have no module tree of {}; they have llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, "
        "deepseek_v2, deepseek_v3 and gpt_oss",
        options(job).model_type.empty() ? "gpt models" : options(job).model_type));
  }
  return refuse_if(
      model.parallel_residual || model.positions != Positions::rotary || !model.final_norm,
      "the hf rules have models of the llama family alone: rotary positions, two residuals, a final "
      "norm");
}

Result<void> check_layout(const Job& job) {
  const ParallelLayout& layout = job.layout;
  const Options& own = options(job);
  if (layout.pp > 1 || layout.virtual_stages > 1) {
    return not_covered("the Trainer has no pipeline of its own (--pp)");
  }
  if (layout.cp > 1) {
    return not_covered("the hf rules have no context parallelism (cp_size)");
  }
  if (layout.ep > 1 || layout.replicated_tp || layout.replicate > 1 || layout.sequence_parallel) {
    return not_covered(
        "the hf rules have no expert and no sequence parallelism and no replicated tensor ranks");
  }
  if (job.train.zero_stage > 0) {
    return not_covered("--zero: the Trainer shards by fsdp of TrainingArguments; leave it out");
  }
  if (layout.tp > 1 && own.loop == Loop::trainer) {
    return failure(
        "the hf rules have the Trainer without tensor ranks alone; leave TrainingArguments out, or "
        "use --tp 1");
  }
  return refuse_if(layout.tp > 1 && layout.dp > 1,
                   "tp_plan with several data ranks has no rules; use as many tensor ranks as ranks");
}

Result<void> check_tensor(const Job& job) {
  const ModelConfig& model = job.model;
  const std::int64_t tp = job.layout.tp;
  if (model.heads % tp != 0) {
    return failure(fmt::format("{} heads cannot be split over {} tensor ranks", model.heads, tp));
  }
  return refuse_if(
      !model.latent.is_used() && !model.attention_sinks && model.kv_heads % tp != 0,
      fmt::format("{} key/value heads cannot be split over {} tensor ranks: transformers fails in "
                  "the attention",
                  model.kv_heads, tp));
}

Result<void> check_units(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  const std::string layer = layer_class(job);
  const bool is_other = std::any_of(fsdp.wrapped.begin(), fsdp.wrapped.end(), [&](const std::string& name) {
    return layer.empty() ? !name.ends_with("DecoderLayer") : name != layer;
  });
  return refuse_if(fsdp.is_used && fsdp.wrap == WrapPolicy::transformer && is_other,
                   fmt::format("transformer_layer_cls_to_wrap: the hf rules wrap the layers alone, {}",
                               layer.empty() ? "the class whose name ends in DecoderLayer" : layer));
}

/// ParallelismConfig._validate_accelerator of accelerate 1.15 parallelism_config.py:355. Sizes of 1 alone
/// stand for replicas on all ranks.
Result<void> check_parallelism(const Job& job) {
  const Options& own = options(job);
  const std::int64_t ranks = job.layout.dp;
  if (!own.parallelism || own.loop == Loop::plain) {
    return {};
  }
  const auto [replicate, shard] = *own.parallelism;
  const bool is_one = replicate == 1 && shard == 1;
  if (!is_one && (replicate > ranks || shard > ranks || replicate * shard != ranks)) {
    return failure(
        fmt::format("parallelism_config: dp_replicate_size {} times dp_shard_size {} is not {} rank{}, which "
                    "accelerate refuses",
                    replicate, shard, ranks, ranks == 1 ? "" : "s"));
  }
  return refuse_if(
      ranks > 1 && shard == 1 && own.fsdp.is_used && own.fsdp.version == 2,
      fmt::format("parallelism_config: dp_shard_size 1 leaves FSDP no ranks to shard over, which "
                  "accelerate refuses; dp_replicate_size times dp_shard_size is to be {} ranks",
                  ranks));
}

Result<void> check_fsdp(const Job& job) {
  const Options& own = options(job);
  const Fsdp& fsdp = own.fsdp;
  if (own.replicate > 1 && (!fsdp.is_used || fsdp.version == 1)) {
    return failure("dp_replicate_size needs fsdp version 2, which shards over the other data ranks");
  }
  if (job.layout.dp % own.replicate != 0) {
    return failure(
        fmt::format("dp_replicate_size {} does not divide {} data ranks", own.replicate, job.layout.dp));
  }
  if (!fsdp.is_used) {
    return {};
  }
  if (fsdp.sharding == Sharding::hybrid || fsdp.sharding == Sharding::hybrid_grad_op) {
    return failure(
        "hybrid_shard of fsdp version 1 shards within a node, which has no rules; use version 2 with "
        "parallelism_config");
  }
  const bool has_router_buffer = job.model.experts > 0 && own.model_type == "deepseek_v3";
  if (loads_on_rank0(job) && has_router_buffer) {
    return failure(
        "cpu_ram_efficient_loading: accelerate fails on the router's buffer of deepseek_v3 "
        "(AttributeError in fsdp2_load_full_state_dict)");
  }
  if (fsdp.checkpoints && fsdp.wrap == WrapPolicy::none) {
    return failure(
        "activation_checkpointing of fsdp needs layers to wrap: accelerate fails with NO_WRAP; use "
        "TRANSFORMER_BASED_WRAP");
  }
  return check_units(job);
}

Result<void> check_ddp(const Job& job) {
  const pytorch::Ddp& ddp = pytorch::options(job).ddp;
  return refuse_if(
      ddp.is_used && ddp.static_graph && job.train.micro_batches > 1 && !ddp.accumulation_sync,
      "ddp_static_graph with gradient accumulation fails in DDP (reducer.cpp expect_autograd_hooks_); "
      "leave one of them out");
}

}  // namespace

Result<void> check_job(const Job& job) {
  for (const auto each :
       {check_model, check_layout, check_tensor, check_parallelism, check_ddp, check_fsdp}) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return {};
}

namespace {

/// A version as packages name it, "2.15.0" or "2.15.0+cu130".
bool is_recorded(std::string_view version, std::string_view recorded) {
  return version.empty() || version.substr(0, version.find('+')) == recorded;
}

void add_versions(const Options& own, std::vector<std::string>& reasons) {
  if (!is_recorded(own.torch_version, "2.15.0")) {
    reasons.push_back(fmt::format("PyTorch {} under transformers", shown_text(own.torch_version)));
  }
  if (!is_recorded(own.accelerate_version, "1.15.0")) {
    reasons.push_back(fmt::format("accelerate {} under transformers", shown_text(own.accelerate_version)));
  }
}

}  // namespace

std::vector<std::string> never_recorded(const Job& job) {
  std::vector<std::string> reasons;
  add_versions(options(job), reasons);
  if (job.layout.tp > 1 && job.train.recompute != Recompute::none) {
    reasons.emplace_back("gradient checkpointing of a model split by its tp_plan");
  }
  if (pytorch::options(job).fsdp.is_offloaded) {
    reasons.emplace_back("offload of FSDP");
  }
  const Options& own = options(job);
  const bool saves = own.loop == Loop::trainer && own.saving.strategy != Interval::never;
  if (pytorch::options(job).fsdp.is_used && !own.fsdp.saves_whole && saves) {
    reasons.emplace_back("checkpoints of sharded states (state_dict_type, save_strategy)");
  } else if (pytorch::options(job).fsdp.is_used && own.fsdp.version == 1 && own.saving.only_model && saves) {
    reasons.emplace_back("save_only_model of FSDP version 1");
  }
  return reasons;
}

}  // namespace commlens::huggingface
