// fsdp_config and parallelism_config, as TrainingArguments and accelerate's file have them.
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/training_arguments.hpp"

namespace commlens::huggingface {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

/// FSDP2 takes a truth value, FSDP1 the name of a strategy; `sharding_strategy` is the older key.
void read_sharding(MapReader& reader, std::string_view key, Fsdp& fsdp) {
  const ConfigNode* const node = reader.node(key);
  if (node == nullptr) {
    return;
  }
  if (fsdp.version == 2) {
    const Result<bool> reshards = as_boolean(*node);
    if (reshards) {
      fsdp.sharding = *reshards ? Sharding::full_shard : Sharding::grad_op;
    } else {
      reader.fail(key, "must be true or false with version 2");
    }
    return;
  }
  const std::string name = lower(node->text);
  using Named = std::pair<std::string_view, Sharding>;
  constexpr Named names[] = {
      {"full_shard", Sharding::full_shard},
      {"1", Sharding::full_shard},
      {"true", Sharding::full_shard},  // the launcher's default, which strategy overrides
      {"shard_grad_op", Sharding::grad_op},
      {"2", Sharding::grad_op},
      {"no_shard", Sharding::no_shard},
      {"3", Sharding::no_shard},
      {"hybrid_shard", Sharding::hybrid},
      {"4", Sharding::hybrid},
      {"hybrid_shard_zero2", Sharding::hybrid_grad_op},
      {"5", Sharding::hybrid_grad_op}};
  for (const auto& [known, sharding] : names) {
    if (known == name) {
      fsdp.sharding = sharding;
      return;
    }
  }
  reader.fail(key, fmt::format("is '{}'; expected full_shard, shard_grad_op, no_shard, hybrid_shard or "
                               "hybrid_shard_zero2 with version 1",
                               shown_text(node->text)));
}

/// accelerate takes the strategy from its own file and not from reshard_after_forward, which
/// TrainingArguments set (FullyShardedDataParallelPlugin.__post_init__: sharding_strategy is always there).
void read_strategy(MapReader& reader, Job& job, Fsdp& fsdp) {
  read_sharding(reader, "reshard_after_forward", fsdp);
  if (fsdp.sharding != Sharding::full_shard) {
    job.warnings.push_back(
        fmt::format("{}: reshard_after_forward has no effect with version 1 in accelerate "
                    "1.15, which shards as fsdp_sharding_strategy of its file says",
                    reader.where("reshard_after_forward")));
  }
  fsdp.sharding = Sharding::full_shard;
  read_sharding(reader, "sharding_strategy", fsdp);
}

void read_wrapping(MapReader& reader, Fsdp& fsdp) {
  reader.accept("min_num_params");
  if (const ConfigNode* const policy = reader.node("auto_wrap_policy")) {
    const std::string name = lower(policy->text);
    if (name == "size_based_wrap") {
      reader.fail("auto_wrap_policy", "is SIZE_BASED_WRAP, which has no rules; use TRANSFORMER_BASED_WRAP");
    } else if (name == "transformer_based_wrap") {
      fsdp.wrap = WrapPolicy::transformer;
    } else if (name == "no_wrap") {
      fsdp.wrap = WrapPolicy::none;
    } else {
      reader.fail("auto_wrap_policy", "must be TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP");
    }
  }
  for (const std::string_view key : {"transformer_cls_to_wrap", "transformer_layer_cls_to_wrap"}) {
    const ConfigNode* const node = reader.node(key);
    if (node != nullptr && node->kind == ConfigNode::Kind::scalar) {
      fsdp.wrapped.clear();
      std::string_view names = node->text;
      while (!names.empty()) {
        const std::size_t end = std::min(names.find(','), names.size());
        fsdp.wrapped.emplace_back(names.substr(0, end));
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    } else {
      reader.read(key, fsdp.wrapped);
    }
  }
}

/// A name or its number in torch.distributed.fsdp.BackwardPrefetch. Version 2 ignores it.
void read_backward_prefetch(MapReader& reader, Fsdp& fsdp) {
  const ConfigNode* const prefetch = reader.node("backward_prefetch");
  if (prefetch == nullptr) {
    return;
  }
  const std::string name = lower(prefetch->text);
  const bool is_pre = name == "backward_pre" || name == "1";
  const bool is_post = name == "backward_post" || name == "2";
  if (!is_pre && !is_post && name != "no_prefetch") {
    reader.fail("backward_prefetch",
                fmt::format("is '{}'; expected BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH",
                            shown_text(prefetch->text)));
  }
  if (is_post && fsdp.version == 1) {
    reader.fail("backward_prefetch", "BACKWARD_POST has no rules; use BACKWARD_PRE or NO_PREFETCH");
  }
  fsdp.prefetches_in_backward = is_pre;
}

/// A name or its number in torch.distributed.fsdp.StateDictType.
void read_state_dict_type(MapReader& reader, Fsdp& fsdp) {
  const ConfigNode* const type = reader.node("state_dict_type");
  if (type == nullptr) {
    return;
  }
  const std::string name = lower(type->text);
  fsdp.saves_whole = name == "full_state_dict" || name == "1";
  const bool is_local = name == "local_state_dict" || name == "2";
  if (is_local && fsdp.version == 2) {
    reader.fail("state_dict_type",
                "LOCAL_STATE_DICT fails with version 2; use FULL_STATE_DICT or SHARDED_STATE_DICT");
  }
  if (!fsdp.saves_whole && !is_local && name != "sharded_state_dict" && name != "3") {
    reader.fail("state_dict_type", fmt::format("is '{}'; expected FULL_STATE_DICT, SHARDED_STATE_DICT or "
                                               "LOCAL_STATE_DICT",
                                               shown_text(type->text)));
  }
}

void read_version_1(MapReader& reader, Fsdp& fsdp) {
  reader.read("use_orig_params", fsdp.use_orig_params);
  reader.read("sync_module_states", fsdp.sync_module_states);
  read_backward_prefetch(reader, fsdp);
  bool prefetches = false;  // the next gather is issued earlier, after the same calls
  reader.read("forward_prefetch", prefetches);
  if (prefetches && fsdp.version == 2) {
    reader.fail("forward_prefetch", "is not implemented by accelerate for version 2");
  }
}

}  // namespace

Result<void> read_fsdp_config(const ConfigNode& section, Job& job) {
  Fsdp& fsdp = options(job).fsdp;
  fsdp = {.is_used = true};
  MapReader reader(section, {job.warnings, job.unmodelled});
  std::int64_t version = 2;
  reader.read("version", version);
  if (version > 2) {
    reader.fail("version", "must be 1 or 2");
  }
  fsdp.version = static_cast<int>(version);
  if (fsdp.version == 1) {
    read_strategy(reader, job, fsdp);
  } else {
    reader.accept("sharding_strategy");
    read_sharding(reader, "reshard_after_forward", fsdp);
  }
  read_wrapping(reader, fsdp);
  read_version_1(reader, fsdp);
  reader.read("cpu_ram_efficient_loading", fsdp.loads_on_rank0);
  reader.read("cpu_offload", fsdp.is_offloaded);
  reader.read("offload_params", fsdp.is_offloaded);
  reader.read("activation_checkpointing", fsdp.checkpoints);
  reader.accept("activation_checkpointing_offload limit_all_gathers");
  read_state_dict_type(reader, fsdp);
  reader.refuse_true("xla", "has no rules");
  reader.accept("xla_fsdp_grad_ckpt xla_fsdp_settings xla_fsdp_v2");
  reader.skip_unless_off("ignored_modules mixed_precision_policy");
  return reader.finish();
}

Result<void> read_parallelism(const ConfigNode& section, Job& job) {
  const ConfigNode sizes = without_prefix(section, "parallelism_config_");
  Options& own = options(job);
  MapReader reader(sizes, {job.warnings, job.unmodelled});
  std::int64_t shard = 1;
  reader.read("dp_replicate_size", own.replicate);
  reader.read("dp_shard_size", shard);
  reader.read("tp_size", job.layout.tp);
  if (reader.has("tp_size") && job.layout.tp > 1) {
    reader.fail("tp_size", "has no rules in the Trainer; from_pretrained: {tp_plan: auto} has, without it");
  }
  for (const std::string_view key : {"cp_size", "sp_size"}) {
    std::int64_t ranks = 1;
    reader.read(key, ranks);
    if (ranks > 1) {
      reader.fail(key, "has no hf rules; use 1");
    }
  }
  reader.accept(
      "cp_backend cp_comm_strategy sp_backend sp_seq_length sp_seq_length_is_variable "
      "sp_attn_implementation tp_handler cp_handler sp_handler");
  own.parallelism = {own.replicate, shard};
  if (own.replicate > 1 && shard == 1) {
    own.replicate = 1;  // data parallelism alone, which DDP does
  }
  if (reader.has("dp_shard_size") && shard > 1) {
    job.layout.dp = own.replicate * shard;
  }
  return reader.finish();
}

}  // namespace commlens::huggingface
