#include "commlens/frameworks/huggingface/training_arguments.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens::huggingface {
namespace {

// Of no effect on messages: files, logs, the optimizer, how data are read and how kernels compute.
constexpr std::string_view k_silent =
    "accelerate_version adafactor adam_beta1 adam_beta2 adam_epsilon batch_eval_metrics bf16_full_eval "
    "data_seed dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context "
    "dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor "
    "ddp_backend ddp_timeout disable_tqdm do_eval do_predict do_train enable_jit_checkpoint "
    "eval_accumulation_steps eval_delay eval_do_concat_batches eval_steps eval_use_gather_object "
    "fp16_backend fp16_full_eval fp16_opt_level full_determinism gradient_checkpointing_kwargs "
    "activation_checkpointing_kwargs greater_is_better group_by_length half_precision_backend "
    "hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip "
    "include_for_metrics jit_mode_eval label_names learning_rate length_column_name liger_kernel_config "
    "local_rank log_level log_level_replica log_on_each_node logging_dir logging_nan_inf_filter "
    "lr_scheduler_kwargs lr_scheduler_type metric_for_best_model neftune_noise_alpha no_cuda "
    "num_train_epochs optim_args output_dir overwrite_output_dir per_device_eval_batch_size "
    "prediction_loss_only project push_to_hub remove_unused_columns report_to "
    "restore_callback_states_from_checkpoint run_name save_on_each_node save_safetensors "
    "save_total_limit seed skip_memory_metrics tf32 torch_compile_backend torch_compile_mode "
    "torch_empty_cache_steps trackio_bucket_id trackio_space_id trackio_static_space_id "
    "train_sampling_strategy use_cache use_cpu use_liger_kernel warmup_ratio warmup_steps weight_decay";

// What they send has no rules; the messages of a training step are the same.
constexpr std::string_view k_skipped_arguments =
    "debug eval_on_start label_smoothing_factor load_best_model_at_end optim_target_modules "
    "resume_from_checkpoint auto_find_batch_size";

// By which a file is recognised: other configurations do not have them (a DeepSpeed JSON has bf16 too).
constexpr std::string_view k_own =
    "accelerator_config average_tokens_across_devices bf16_full_eval dataloader_num_workers "
    "dataloader_pin_memory ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters "
    "ddp_static_graph ddp_timeout eval_steps eval_strategy evaluation_strategy fp16_full_eval fsdp "
    "gradient_checkpointing_kwargs include_num_input_tokens_seen label_smoothing_factor learning_rate "
    "load_best_model_at_end logging_first_step logging_steps logging_strategy lr_scheduler_kwargs "
    "lr_scheduler_type max_grad_norm max_steps num_train_epochs optim output_dir per_device_eval_batch_size "
    "per_device_train_batch_size per_gpu_train_batch_size push_to_hub remove_unused_columns report_to "
    "save_only_model save_steps save_strategy save_total_limit torch_compile warmup_ratio";

void read_interval(MapReader& reader, std::string_view key, Interval& interval) {
  reader.choose(key,
                {{"no", Interval::never},
                 {"steps", Interval::steps},
                 {"epoch", Interval::epoch},
                 {"false", Interval::never}},  // `no` of YAML 1.1
                interval);
}

/// A number of steps, or the part of all that is between 0 and 1.
void read_steps(MapReader& reader, std::string_view key, double& steps) {
  reader.read(key, steps);
  if (!(steps > 0 && steps <= 1e12)) {
    reader.fail(key, "must be more than 0: a number of steps, or a part of max_steps below 1");
  }
}

void read_precision(MapReader& reader, Options& own) {
  bool is_bf16 = false;
  bool is_fp16 = false;
  reader.read("bf16", is_bf16);
  reader.read("fp16", is_fp16);
  if (is_bf16 && is_fp16) {
    reader.fail("fp16", "and bf16 cannot both be true");
  }
  if (is_bf16 || is_fp16) {
    own.mixed_precision = is_bf16 ? DType::bf16 : DType::fp16;
  }
}

void read_logging(MapReader& reader, Options& own) {
  read_interval(reader, "logging_strategy", own.logging.strategy);
  read_steps(reader, "logging_steps", own.logging.steps);
  reader.read("logging_first_step", own.logging.first_step);
  if (const ConfigNode* const save = reader.node("save_strategy"); save != nullptr && save->text == "best") {
    reader.fail("save_strategy",
                "best follows from evaluations, which have no rules; use no, steps or epoch");
  }
  read_interval(reader, "save_strategy", own.saving.strategy);
  read_steps(reader, "save_steps", own.saving.steps);
  reader.read("save_only_model", own.saving.only_model);
  for (const std::string_view key : {"eval_strategy", "evaluation_strategy"}) {
    const ConfigNode* const strategy = reader.node(key);
    if (strategy != nullptr && strategy->text != "no" && !is_off(*strategy)) {
      reader.skip(key, "an evaluation between training steps");
    }
  }
}

void read_ddp_arguments(MapReader& reader, Ddp& ddp) {
  if (reader.has("ddp_find_unused_parameters")) {
    bool finds = false;
    reader.read("ddp_find_unused_parameters", finds);
    ddp.find_unused_parameters = finds;
  }
  reader.read("ddp_broadcast_buffers", ddp.broadcast_buffers);
  reader.read("ddp_static_graph", ddp.static_graph);
  if (reader.has("ddp_bucket_cap_mb")) {
    std::int64_t cap = 0;
    reader.read("ddp_bucket_cap_mb", cap);
    if (cap > 1'000'000'000) {
      reader.fail("ddp_bucket_cap_mb", "must be at most 1e9");
    }
    ddp.bucket_cap = Bytes{std::min<std::int64_t>(cap, 1'000'000'000) << 20};
  }
}

void read_input_count(MapReader& reader, Options& own) {
  reader.choose("include_num_input_tokens_seen",
                {{"no", false}, {"all", true}, {"non_padding", true}, {"false", false}, {"true", true}},
                own.counts_input);
}

/// accelerator_config: how accelerate hands out batches and accumulates gradients.
Result<void> read_accelerator_config(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.accept("split_batches even_batches non_blocking use_configured_state");
  bool is_seedable = true;
  reader.read("use_seedable_sampler", is_seedable);
  if (!is_seedable) {
    reader.fail("use_seedable_sampler",
                "is false: the state of a generator is broadcast at the start of every epoch, which has no "
                "rules; use true");
  }
  reader.refuse_true("dispatch_batches",
                     "is true: rank 0 reads all batches and sends them, which has no rules; use false");
  if (const ConfigNode* const accumulation = reader.map("gradient_accumulation_kwargs")) {
    MapReader inner(*accumulation, {job.warnings, job.unmodelled});
    inner.accept("adjust_scheduler sync_with_dataloader");
    inner.read("num_steps", job.train.micro_batches);
    inner.read("sync_each_batch", options(job).syncs_each_batch);
    if (const Result<void> ok = inner.finish(); !ok) {
      return ok;
    }
  }
  return reader.finish();
}

/// `fsdp`: true, or words that set keys of fsdp_config (TrainingArguments._apply_legacy_fsdp_to_config).
Result<std::vector<std::string>> fsdp_words(MapReader& reader) {
  const ConfigNode* const node = reader.node("fsdp");
  std::vector<std::string> words;
  if (node == nullptr || (is_off(*node) && node->kind != ConfigNode::Kind::list)) {
    return words;
  }
  if (node->kind == ConfigNode::Kind::list) {
    reader.read("fsdp", words);
    return words;
  }
  const Result<bool> is_on = as_boolean(*node);
  if (is_on) {
    return *is_on ? std::vector<std::string>{"true"} : words;
  }
  std::string_view text = node->text;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) {
      words.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// Sets keys of fsdp_config that it does not have.
Result<void> apply_fsdp_words(const ConfigNode& at, const std::vector<std::string>& words,
                              ConfigNode& config) {
  const ConfigNode* const version = find(config, "version");
  const bool is_first = version != nullptr && version->text == "1";
  const auto set_default = [&](const std::string& key, const std::string& value) {
    if (find(config, key) == nullptr) {
      append(config, key,
             {.kind = ConfigNode::Kind::scalar, .line = at.line, .file = at.file, .text = value});
    }
  };
  for (const std::string& word : words) {
    if (word == "true" || word == "auto_wrap") {
      continue;
    }
    if (word == "offload") {
      set_default("cpu_offload", "true");
    } else if (word == "full_shard" || word == "shard_grad_op") {
      set_default("reshard_after_forward", is_first ? word : word == "full_shard" ? "true" : "false");
    } else if (is_first && (word == "no_shard" || word == "hybrid_shard" || word == "hybrid_shard_zero2")) {
      set_default("reshard_after_forward", word);
    } else {
      return failure(
          fmt::format("{}: 'fsdp' has '{}'; expected true, full_shard, shard_grad_op, offload, "
                      "auto_wrap, with version 1 also no_shard, hybrid_shard, hybrid_shard_zero2",
                      at.where(), shown_text(word)));
    }
  }
  return {};
}

/// fsdp_config: a map, or the path of a JSON file with one, from the file that names it.
Result<ConfigNode> fsdp_config_of(const ConfigNode* node, const ConfigNode& arguments) {
  if (node == nullptr) {
    return ConfigNode{.kind = ConfigNode::Kind::map, .line = arguments.line, .file = arguments.file};
  }
  if (node->kind != ConfigNode::Kind::scalar) {
    return *node;
  }
  const std::filesystem::path path = std::filesystem::path(node->file).parent_path() / node->text;
  const Result<std::string> content = read_text_file(path, k_config_size_limit);
  return content ? parse_json(path.string(), *content) : tl::unexpected(content.error());
}

Result<void> read_fsdp_arguments(MapReader& reader, const ConfigNode& arguments, Job& job) {
  const Result<std::vector<std::string>> words = fsdp_words(reader);
  const ConfigNode* const config = reader.node("fsdp_config");
  if (!words || words->empty()) {
    return {};  // without `fsdp` its configuration is not used
  }
  Result<ConfigNode> read = fsdp_config_of(config, arguments);
  if (!read) {
    return tl::unexpected(read.error());
  }
  ConfigNode section = without_prefix(std::move(*read), "fsdp_");
  if (const Result<void> ok = apply_fsdp_words(*reader.node("fsdp"), *words, section); !ok) {
    return ok;
  }
  return read_fsdp_config(section, job);
}

/// Sections that have readers of their own.
Result<void> read_argument_sections(MapReader& reader, const ConfigNode& arguments, Job& job) {
  if (const Result<void> ok = read_fsdp_arguments(reader, arguments, job); !ok) {
    return ok;
  }
  if (const ConfigNode* const section = reader.map("accelerator_config")) {
    if (const Result<void> ok = read_accelerator_config(*section, job); !ok) {
      return ok;
    }
  }
  const ConfigNode* const parallelism = reader.map("parallelism_config");
  return parallelism == nullptr ? Result<void>{} : read_parallelism(*parallelism, job);
}

void refuse_others(MapReader& reader) {
  if (const ConfigNode* const deepspeed = reader.node("deepspeed");
      deepspeed != nullptr && !is_off(*deepspeed)) {
    reader.fail(
        "deepspeed",
        "has no hf rules; give its JSON beside config.json with --framework deepspeed, which does not "
        "count what the Trainer adds");
  }
  reader.refuse_true("torch_compile", "has no rules: compiled graphs have buckets of their own; use false");
  reader.accept(k_silent);
  reader.skip_unless_off(k_skipped_arguments);
  std::string optimizer = "adamw_torch_fused";
  reader.read("optim", optimizer);
  const bool is_local =
      optimizer.starts_with("adam") || optimizer == "sgd" || optimizer == "adagrad" || optimizer == "rmsprop";
  if (!is_local) {
    reader.skip("optim", "the optimizer " + shown_text(optimizer));
  }
}

bool is_of_arguments(const ConfigFile& file) {
  const bool is_other = file.has("model_type") || file.has("architectures") || file.has("distributed_type") ||
                        file.has("framework") || file.has("train_batch_size") ||
                        file.has("train_micro_batch_size_per_gpu");
  const bool is_own = file.has("gradient_accumulation_steps") ||
                      file.has_any([](std::string_view key) { return is_one_of(key, k_own); }) ||
                      (file.is_json() && file.has("deepspeed"));  // of a NeoX yml too
  return !is_other && is_own && (file.is_json() || file.is_yaml());
}

}  // namespace

ConfigNode without_prefix(ConfigNode map, std::string_view prefix) {
  for (std::string& key : map.keys) {
    if (key.starts_with(prefix)) {
      key.erase(0, prefix.size());
    }
  }
  return map;
}

Result<void> read_training_arguments(const ConfigNode& arguments, Job& job) {
  Options& own = options(job);
  MapReader reader(arguments, {job.warnings, job.unmodelled});
  own.states_batch = true;
  job.train.micro_batch = k_default_batch;
  reader.read("per_device_train_batch_size", job.train.micro_batch);
  reader.read("per_gpu_train_batch_size", job.train.micro_batch);
  reader.read("gradient_accumulation_steps", job.train.micro_batches);
  reader.read("max_steps", own.max_steps, -1);
  job.train.gradient_clipping = 1;
  reader.read("max_grad_norm", job.train.gradient_clipping);
  read_precision(reader, own);
  read_logging(reader, own);
  read_ddp_arguments(reader, own.ddp);
  read_input_count(reader, own);
  reader.read("average_tokens_across_devices", own.averages_tokens);
  bool checkpoints = false;
  reader.read("gradient_checkpointing", checkpoints);
  reader.read("activation_checkpointing", checkpoints);
  if (checkpoints) {
    set_recompute(job, Recompute::full);
  }
  refuse_others(reader);
  if (const Result<void> ok = read_argument_sections(reader, arguments, job); !ok) {
    return ok;
  }
  return reader.finish();
}

ConfigReader training_arguments_reader() {
  return {.name = "a file of TrainingArguments",
          .framework = k_name,
          .recognises = is_of_arguments,
          .add = read_training_arguments};
}

}  // namespace commlens::huggingface
