// The settings of the Trainer that make two runs of a model differ. The first of several that explain the
// same is named.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"

namespace commlens::huggingface {
namespace {

void add_logging(Variations& variations) {
  const Options& now = options(variations.job());
  variations.toggle("average_tokens_across_devices",
                    [](Job& job) -> bool& { return options(job).averages_tokens; });
  if (now.logging.strategy != Interval::never) {
    variations.add("logging_strategy", "no",
                   [](Job& job) { options(job).logging.strategy = Interval::never; });
  }
  constexpr std::array<double, 12> steps = {1, 2, 3, 4, 5, 8, 10, 20, 25, 50, 100, 500};
  for (const double every : steps) {
    if (now.logging.strategy != Interval::steps || now.logging.steps != every) {
      variations.add("logging_steps", fmt::format("{}", every), [every](Job& job) {
        options(job).logging.strategy = Interval::steps;
        options(job).logging.steps = every;
      });
    }
  }
  variations.toggle("logging_first_step", [](Job& job) -> bool& { return options(job).logging.first_step; });
  if (now.logging.strategy != Interval::epoch) {
    variations.add("logging_strategy", "epoch",
                   [](Job& job) { options(job).logging.strategy = Interval::epoch; });
  }
  variations.toggle("include_num_input_tokens_seen",
                    [](Job& job) -> bool& { return options(job).counts_input; });
}

void add_length(Variations& variations) {
  const Options& now = options(variations.job());
  const std::int64_t iterations = variations.job().iterations;
  if (now.max_steps != iterations) {
    variations.add("max_steps", fmt::format("{}", iterations),
                   [iterations](Job& job) { options(job).max_steps = iterations; });
  }
  if (now.max_steps > 0) {
    variations.add("max_steps", "-1", [](Job& job) { options(job).max_steps = -1; });
  }
  variations.toggle("save_only_model", [](Job& job) -> bool& { return options(job).saving.only_model; });
  const std::pair<std::string_view, Interval> strategies[] = {
      {"no", Interval::never}, {"steps", Interval::steps}, {"epoch", Interval::epoch}};
  for (const auto& [name, strategy] : strategies) {
    if (now.saving.strategy != strategy) {
      variations.add("save_strategy", std::string(name),
                     [chosen = strategy](Job& job) { options(job).saving.strategy = chosen; });
    }
  }
}

void add_ddp(Variations& variations) {
  const Ddp& now = options(variations.job()).ddp;
  for (const bool finds : {true, false}) {
    if (now.find_unused_parameters != finds) {
      variations.add("ddp_find_unused_parameters", finds ? "true" : "false",
                     [finds](Job& job) { options(job).ddp.find_unused_parameters = finds; });
    }
  }
  variations.toggle("ddp_broadcast_buffers",
                    [](Job& job) -> bool& { return options(job).ddp.broadcast_buffers; });
  variations.toggle("ddp_static_graph", [](Job& job) -> bool& { return options(job).ddp.static_graph; });
  if (now.bucket_cap) {
    variations.add("ddp_bucket_cap_mb", "absent", [](Job& job) { options(job).ddp.bucket_cap.reset(); });
  }
  constexpr std::array<std::int64_t, 7> caps = {1, 5, 10, 25, 50, 100, 200};
  for (const std::int64_t cap : caps) {
    const Bytes bytes{cap << 20};
    if (now.bucket_cap != bytes) {
      variations.add("ddp_bucket_cap_mb", fmt::format("{}", cap),
                     [bytes](Job& job) { options(job).ddp.bucket_cap = bytes; });
    }
  }
}

void add_fsdp(Variations& variations) {
  const Fsdp& now = options(variations.job()).fsdp;
  variations.toggle("fsdp", [](Job& job) -> bool& { return options(job).fsdp.is_used; });
  if (!now.is_used) {
    return;
  }
  const int other = 3 - now.version;
  variations.add("fsdp_config.version", fmt::format("{}", other),
                 [other](Job& job) { options(job).fsdp.version = other; });
  const bool reshards = now.sharding == Sharding::full_shard;
  variations.add(
      now.version == 2 ? "fsdp_config.reshard_after_forward" : "fsdp_sharding_strategy",
      now.version == 2 ? (reshards ? "false" : "true") : (reshards ? "SHARD_GRAD_OP" : "FULL_SHARD"),
      [reshards](Job& job) {
        options(job).fsdp.sharding = reshards ? Sharding::grad_op : Sharding::full_shard;
      });
  if (now.version == 2) {  // of version 1 it is sync_module_states
    variations.toggle("fsdp_config.cpu_ram_efficient_loading",
                      [](Job& job) -> bool& { return options(job).fsdp.loads_on_rank0; });
  }
  const bool wraps = now.wrap == WrapPolicy::transformer;
  variations.add(
      "fsdp_config.auto_wrap_policy", wraps ? "NO_WRAP" : "TRANSFORMER_BASED_WRAP",
      [wraps](Job& job) { options(job).fsdp.wrap = wraps ? WrapPolicy::none : WrapPolicy::transformer; });
  const std::pair<std::string_view, bool Fsdp::*> of_version_1[] = {
      {"fsdp_config.use_orig_params", &Fsdp::use_orig_params},
      {"fsdp_config.sync_module_states", &Fsdp::sync_module_states},
      {"fsdp_config.backward_prefetch", &Fsdp::prefetches_in_backward}};
  for (const auto& [key, member] : of_version_1) {
    if (now.version == 1) {
      variations.toggle(key, [field = member](Job& job) -> bool& { return options(job).fsdp.*field; });
    }
  }
}

void add_shards(Variations& variations) {
  const std::int64_t dp = variations.job().layout.dp;
  for (std::int64_t replicas = 1; replicas < dp; ++replicas) {
    if (dp % replicas == 0 && replicas != options(variations.job()).replicate) {
      variations.add("dp_replicate_size", fmt::format("{}", replicas),
                     [replicas](Job& job) { options(job).replicate = replicas; });
    }
  }
}

void add_precision(Variations& variations) {
  const std::pair<std::string_view, std::optional<DType>> values[] = {
      {"no", std::nullopt}, {"bf16", DType::bf16}, {"fp16", DType::fp16}};
  for (const auto& [name, dtype] : values) {
    if (options(variations.job()).mixed_precision != dtype) {
      variations.add("mixed_precision", std::string(name),
                     [chosen = dtype](Job& job) { options(job).mixed_precision = chosen; });
    }
  }
}

}  // namespace

void add_variations(Variations& variations) {
  if (options(variations.job()).loop == Loop::plain) {
    return;
  }
  add_logging(variations);
  add_ddp(variations);
  add_fsdp(variations);
  add_shards(variations);
  add_precision(variations);
  variations.toggle("sync_each_batch", [](Job& job) -> bool& { return options(job).syncs_each_batch; });
  add_length(variations);
}

}  // namespace commlens::huggingface
