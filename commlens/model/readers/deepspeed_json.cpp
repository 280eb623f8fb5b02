#include "commlens/model/readers/deepspeed_json.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/model/framework_options.hpp"
#include "commlens/model/readers/map_reader.hpp"

namespace commlens {
namespace {

// Keys of runtime/config.py, runtime/constants.py and their sections that change no message.
constexpr std::string_view k_other_keys =
    "aio autotuning checkpoint comet comms_logger compile csv_monitor data_efficiency "
    "dataloader_drop_last deepspeed dump_state eigenvalue flops_profiler gradient_predivide_factor "
    "graph_harvesting hybrid_engine load_universal memory_breakdown nebula prescale_gradients "
    "progressive_layer_drop scheduler seq_parallel_communication_data_type sparse_attention "
    "steps_per_print tensorboard timers use_data_before_expert_parallelism use_node_local_storage "
    "wall_clock_breakdown wandb weight_quantization zero_allow_untested_optimizer "
    "zero_force_ds_cpu_optimizer";

constexpr std::string_view k_read_keys =
    "activation_checkpointing amp bf16 bfloat16 communication_data_type compression_training "
    "curriculum_learning data_types disable_allgather elasticity fp16 gradient_accumulation_steps "
    "gradient_clipping optimizer pipeline quantize_training sparse_gradients train_batch_size "
    "train_micro_batch_size_per_gpu zero_optimization";

constexpr std::string_view k_precision_keys =
    "auto_cast consecutive_hysteresis dynamic_loss_scale fp16 fp16_master_weights_and_grads hysteresis "
    "immediate_grad_update initial_scale_power loss_scale loss_scale_window loss_scaler min_loss_scale "
    "min_scale opt_level type";

constexpr std::string_view k_zero_keys =
    "allgather_bucket_size allgather_partitions cpu_offload_params cpu_offload_use_pin_memory "
    "elastic_checkpoint gather_16bit_weights_on_model_save ignore_unused_parameters legacy_stage1 "
    "load_from_fp32_weights memory_efficient_linear mics_hierarchical_params_gather "
    "override_module_apply pin_memory pipeline_loading_checkpoint "
    "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
    "zero_quantized_nontrainable_weights zeropp_loco_param";

constexpr std::string_view k_pipeline_keys =
    "activation_checkpoint_interval micro_batches partition seed_layers stages use_reentrant";

void read_dtype(MapReader& reader, std::string_view key, std::optional<DType>& dtype) {
  reader.choose<std::optional<DType>>(key,
                                      {{"fp32", DType::fp32},
                                       {"float32", DType::fp32},
                                       {"fp16", DType::fp16},
                                       {"float16", DType::fp16},
                                       {"bf16", DType::bf16},
                                       {"bfp16", DType::bf16},
                                       {"bfloat16", DType::bf16},
                                       {"fp64", DType::fp64}},
                                      dtype);
}

/// Whether a section is there and switched on.
bool is_enabled(MapReader& settings, std::string_view section, std::vector<std::string>& warnings) {
  const ConfigNode* map = settings.map(section);
  if (map == nullptr) {
    return false;
  }
  bool enabled = false;
  MapReader reader(*map, warnings);
  reader.read("enabled", enabled);
  reader.accept(k_precision_keys);
  if (reader.failed()) {
    settings.fail(section, "needs a boolean 'enabled'");
  }
  return enabled;
}

Result<void> read_precision(MapReader& settings, Job& job) {
  const bool names_fp16 = settings.has("fp16");
  const bool names_bf16 = settings.has("bf16") || settings.has("bfloat16");
  bool fp16 = is_enabled(settings, "fp16", job.warnings);
  bool bf16 = is_enabled(settings, "bf16", job.warnings) || is_enabled(settings, "bfloat16", job.warnings);
  const ConfigNode* section = settings.map("fp16");
  const ConfigNode* type = section == nullptr ? nullptr : find(*section, "type");
  if (fp16 && type != nullptr && (type->text == "bfloat16" || type->text == "bf16")) {
    fp16 = false;
    bf16 = true;
  }
  if (fp16 && bf16) {
    settings.fail("fp16", "and bf16 are both enabled; switch one off");
  }
  const bool switched_off =
      (names_fp16 && job.train.dtype == DType::fp16) || (names_bf16 && job.train.dtype == DType::bf16);
  if (fp16 || bf16) {
    job.train.dtype = fp16 ? DType::fp16 : DType::bf16;
  } else if (switched_off) {
    job.train.dtype = DType::fp32;
  }
  read_dtype(settings, "communication_data_type", job.deepspeed.communication_dtype);
  if (const ConfigNode* types = settings.map("data_types")) {
    MapReader reader(*types, job.warnings);
    read_dtype(reader, "grad_accum_dtype", job.deepspeed.grad_accumulation_dtype);
    return reader.finish();
  }
  return {};
}

/// Sets `offload` when a section asks for another device than the accelerator.
void read_offload(MapReader& zero, std::string_view section, bool& offload) {
  const ConfigNode* map = zero.map(section);
  const ConfigNode* device = map == nullptr ? nullptr : find(*map, "device");
  if (device != nullptr && device->kind == ConfigNode::Kind::scalar) {
    offload = offload || (device->text != "none");
  }
}

/// A size that DeepSpeed takes under two names.
void read_size(MapReader& zero, std::string_view key, std::int64_t& value) {
  zero.read(key, value, 0);
  zero.read(fmt::format("stage3_{}", key), value, 0);
}

Result<void> read_zero(const ConfigNode& section, Job& job) {
  DeepSpeedOptions& options = job.deepspeed;
  MapReader zero(section, job.warnings);
  std::int64_t stage = 0;
  zero.read("stage", stage, 0);
  if (stage > 3) {
    zero.fail("stage", fmt::format("is {}; ZeRO has stages 0 to 3", stage));
    return zero.finish();
  }
  set_zero_stage(job, static_cast<int>(stage));
  options.overlap_comm = stage == 3;
  zero.read("overlap_comm", options.overlap_comm);
  zero.read("reduce_bucket_size", options.reduce_bucket_size);
  zero.read("reduce_scatter", options.reduce_scatter);
  zero.read("use_multi_rank_bucket_allreduce", options.use_multi_rank_bucket_allreduce);
  zero.read("contiguous_gradients", options.contiguous_gradients);
  zero.read("round_robin_gradients", options.round_robin_gradients);
  read_size(zero, "prefetch_bucket_size", options.prefetch_bucket_size);
  read_size(zero, "param_persistence_threshold", options.param_persistence_threshold);
  read_size(zero, "model_persistence_threshold", options.model_persistence_threshold);
  read_size(zero, "max_live_parameters", options.max_live_parameters);
  read_size(zero, "max_reuse_distance", options.max_reuse_distance);
  zero.read("sub_group_size", options.sub_group_size);
  zero.read("zero_hpz_partition_size", options.hpz_partition_size);
  zero.read("zero_quantized_weights", options.quantized_weights);
  zero.read("zero_quantized_gradients", options.quantized_gradients);
  zero.read("cpu_offload", options.offload);
  zero.read("cpu_offload_param", options.offload);
  read_offload(zero, "offload_optimizer", options.offload);
  read_offload(zero, "offload_param", options.offload);
  std::int64_t mics = -1;
  zero.read("mics_shard_size", mics, -1);
  if (mics > 0) {
    zero.fail("mics_shard_size", "asks for MiCS, which has no rules here; leave it out");
  }
  zero.accept(k_zero_keys);
  return zero.finish();
}

Result<void> read_zero_section(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.node("zero_optimization");
  if (section == nullptr) {
    return {};
  }
  if (section->kind == ConfigNode::Kind::scalar) {  // the old form: true is stage 1
    bool is_on = false;
    settings.read("zero_optimization", is_on);
    set_zero_stage(job, is_on ? 1 : 0);
    return {};
  }
  return read_zero(*section, job);
}

Result<void> read_pipeline(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("pipeline");
  if (section == nullptr) {
    return {};
  }
  MapReader pipeline(*section, job.warnings);
  pipeline.read("pipe_partitioned", job.deepspeed.pipe_partitioned);
  pipeline.read("grad_partitioned", job.deepspeed.grad_partitioned);
  pipeline.accept(k_pipeline_keys);
  return pipeline.finish();
}

/// DeepSpeed derives what is missing of: train_batch_size = micro-batch x accumulation steps x dp.
void read_batch(MapReader& settings, Job& job) {
  std::int64_t total = 0;
  settings.read("train_batch_size", total);
  const bool has_micro_batch = settings.has("train_micro_batch_size_per_gpu");
  const bool has_steps = settings.has("gradient_accumulation_steps");
  settings.read("train_micro_batch_size_per_gpu", job.train.micro_batch);
  settings.read("gradient_accumulation_steps", job.train.micro_batches);
  if (total == 0) {
    return;
  }
  job.global_batch = total;
  if (has_micro_batch && !has_steps) {
    job.train.micro_batches = 0;
  } else if (!has_micro_batch) {
    job.train.micro_batch = 0;
  }
}

void refuse_what_has_no_rules(MapReader& settings, Job& job) {
  settings.refuse_true("sparse_gradients",
                       "sends embedding gradients as sparse tensors, which has no rules here");
  settings.refuse_true("disable_allgather", "is not supported");
  for (const std::string_view section : {"amp", "curriculum_learning", "elasticity"}) {
    if (is_enabled(settings, section, job.warnings)) {
      settings.fail(section, "changes what is sent and has no rules here; switch it off");
    }
  }
  settings.refuse("compression_training", "changes what is sent and has no rules here; leave it out");
  settings.refuse("quantize_training", "changes what is sent and has no rules here; leave it out");
  const ConfigNode* optimizer = settings.map("optimizer");
  const ConfigNode* type = optimizer == nullptr ? nullptr : find(*optimizer, "type");
  if (type == nullptr) {
    return;
  }
  std::string name = type->text;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const std::string_view compressed : {"onebitadam", "zerooneadam", "onebitlamb"}) {
    if (name == compressed) {
      settings.fail("optimizer", fmt::format("is {}, whose compressed all_reduce has no rules here", name));
    }
  }
}

/// The Hugging Face trainer writes "auto" for what it fills in later: it counts as absent.
void drop_automatic(ConfigNode& node, std::vector<std::string>& warnings) {
  for (std::size_t index = 0; index < node.items.size(); ++index) {
    ConfigNode& item = node.items[index];
    drop_automatic(item, warnings);
    if (item.kind != ConfigNode::Kind::scalar || item.text != "auto" || node.kind != ConfigNode::Kind::map) {
      continue;
    }
    item.kind = ConfigNode::Kind::null;
    if (is_deepspeed_key(node.keys[index]) || node.keys[index].find("size") != std::string::npos) {
      warnings.push_back(fmt::format("{}: '{}' is \"auto\"; DeepSpeed's default is used", item.where(),
                                     shown_text(node.keys[index])));
    }
  }
}

}  // namespace

bool is_deepspeed_key(std::string_view key) {
  return is_one_of(key, k_read_keys) || is_one_of(key, k_other_keys);
}

Result<void> read_deepspeed(const ConfigNode& settings, Job& job) {
  ConfigNode given = settings;
  drop_automatic(given, job.warnings);
  MapReader reader(given, job.warnings);
  for (const auto read : {read_precision, read_zero_section, read_pipeline}) {
    if (const Result<void> ok = read(reader, job); !ok) {
      return ok;
    }
  }
  read_batch(reader, job);
  reader.read("gradient_clipping", job.train.gradient_clipping);
  if (job.train.gradient_clipping < 0) {
    reader.fail("gradient_clipping", "must not be negative");
  }
  if (const ConfigNode* checkpointing = reader.map("activation_checkpointing")) {
    if (const ConfigNode* partition = find(*checkpointing, "partition_activations")) {
      job.deepspeed.partition_activations =
          as_boolean(*partition).value_or(job.deepspeed.partition_activations);
    }
  }
  refuse_what_has_no_rules(reader, job);
  reader.accept(k_other_keys);
  return reader.finish();
}

}  // namespace commlens
