#include "commlens/frameworks/deepspeed/reader.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_precision_keys =
    "auto_cast consecutive_hysteresis dynamic_loss_scale fp16 hysteresis immediate_grad_update "
    "initial_scale_power loss_scale loss_scale_window loss_scaler min_loss_scale min_scale opt_level type";

constexpr std::string_view k_zero_keys =
    "allgather_bucket_size allgather_partitions cpu_offload_use_pin_memory elastic_checkpoint "
    "gather_16bit_weights_on_model_save ignore_unused_parameters legacy_stage1 load_from_fp32_weights "
    "log_trace_cache_warnings memory_efficient_linear mics_hierarchical_params_gather "
    "override_module_apply pin_memory pipeline_loading_checkpoint "
    "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save";

constexpr std::string_view k_pipeline_keys = "micro_batches partition seed_layers stages use_reentrant";

constexpr std::string_view k_checkpointing_keys =
    "contiguous_memory_optimization cpu_checkpointing number_checkpoints profile "
    "synchronize_checkpoint_boundary";

// Optimizers that exchange nothing of their own (in lower case).
constexpr std::string_view k_local_optimizers =
    "adadelta adafactor adagrad adam adamax adamw cpuadam cpulion fusedadam fusedlamb fusedlion lamb lion "
    "muadam "
    "muadamw musgd rmsprop sgd";

// What can change messages and has no rules, also of versions after 0.14.0: skipped, unless switched off.
constexpr std::string_view k_skipped_zero_keys =
    "cpu_offload_params module_granularity_threshold "
    "stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params "
    "use_all_reduce_for_fetch_params zenflow zero_quantized_nontrainable_weights zeropp_loco_param";

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
bool is_enabled(MapReader& settings, std::string_view section) {
  const ConfigNode* map = settings.map(section);
  const ConfigNode* enabled = map == nullptr ? nullptr : find(*map, "enabled");
  if (enabled == nullptr || enabled->kind == ConfigNode::Kind::null) {
    return false;
  }
  const Result<bool> value = as_boolean(*enabled);
  if (!value) {
    settings.fail(section, "needs a boolean 'enabled'");
  }
  return value.value_or(false);
}

/// DeepSpeed's section fp16.
void read_loss_scaling(MapReader& reader, LossScaling& scaling) {
  constexpr double largest = 1e30;
  constexpr std::int64_t largest_power = 100;
  read_within(reader, "loss_scale", {0, largest}, scaling.fixed);
  std::int64_t power = 16;
  reader.read("initial_scale_power", power, 0);
  scaling.initial = std::exp2(static_cast<double>(power));
  reader.read("loss_scale_window", scaling.window);
  reader.read("hysteresis", scaling.hysteresis);
  reader.read("consecutive_hysteresis", scaling.consecutive_hysteresis);
  read_within(reader, "min_loss_scale", {0, largest}, scaling.minimum);
  if (power > largest_power) {
    reader.fail("initial_scale_power", "is above 100, which no gradient survives");
  }
}

/// The same of fp16 or bf16, whose other keys are read too.
bool is_precision(MapReader& settings, std::string_view section, Job& job) {
  const bool enabled = is_enabled(settings, section);
  const ConfigNode* map = settings.map(section);
  if (enabled && map != nullptr) {
    MapReader reader(*map, {job.warnings, job.unmodelled});
    reader.accept("enabled");
    if (section == "fp16") {
      read_loss_scaling(reader, job.recipe.loss_scaling);
    }
    reader.accept(k_precision_keys);
    reader.skip_unless_off("fp16_master_weights_and_grads");
    if (const Result<void> ok = reader.finish(); !ok) {
      settings.fail_at(*map, ok.error().message);
    }
  }
  return enabled;
}

Result<void> read_precision(MapReader& settings, Job& job) {
  const bool names_fp16 = settings.has("fp16");
  const bool names_bf16 = settings.has("bf16") || settings.has("bfloat16");
  bool fp16 = is_precision(settings, "fp16", job);
  bool bf16 = is_precision(settings, "bf16", job) || is_precision(settings, "bfloat16", job);
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
    job.train.dtype_is_chosen = true;
  } else if (switched_off) {
    job.train.dtype = DType::fp32;
  }
  read_dtype(settings, "communication_data_type", deepspeed::options(job).communication_dtype);
  if (const ConfigNode* types = settings.map("data_types")) {
    MapReader reader(*types, {job.warnings, job.unmodelled});
    read_dtype(reader, "grad_accum_dtype", deepspeed::options(job).grad_accumulation_dtype);
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
  deepspeed::Options& options = deepspeed::options(job);
  MapReader zero(section, {job.warnings, job.unmodelled});
  std::int64_t stage = 0;
  zero.read("stage", stage, 0);
  if (stage > 3) {
    zero.fail("stage", fmt::format("is {}; ZeRO has stages 0 to 3", stage));
    return zero.finish();
  }
  job.train.zero_stage = static_cast<int>(stage);
  options.overlap_comm = stage == 3;
  zero.read("overlap_comm", options.overlap_comm);
  zero.read("reduce_bucket_size", options.reduce_bucket_size);
  zero.read("reduce_scatter", options.reduce_scatter);
  zero.read("use_multi_rank_bucket_allreduce", options.use_multi_rank_bucket_allreduce);
  zero.read("contiguous_gradients", options.contiguous_gradients);
  zero.read("round_robin_gradients", options.round_robin_gradients);
  read_size(zero, "prefetch_bucket_size", options.prefetch_bucket_size);
  read_size(zero, "param_persistence_threshold", job.train.persistence_threshold);
  read_size(zero, "model_persistence_threshold", options.model_persistence_threshold);
  read_size(zero, "max_live_parameters", options.max_live_parameters);
  read_size(zero, "max_reuse_distance", options.max_reuse_distance);
  zero.read("sub_group_size", options.sub_group_size);
  zero.read("zero_hpz_partition_size", job.train.hpz);
  zero.read("zero_quantized_weights", job.train.quantized_weights);
  zero.read("zero_quantized_gradients", job.train.quantized_gradients);
  zero.read("cpu_offload", options.offload);
  zero.read("cpu_offload_param", options.offload);
  read_offload(zero, "offload_optimizer", options.offload);
  read_offload(zero, "offload_param", options.offload);
  std::int64_t mics = -1;
  zero.read("mics_shard_size", mics, -1);
  if (mics > 0) {
    zero.fail("mics_shard_size", "asks for MiCS, which has no rules here; leave it out");
  }
  zero.skip_unless_off(k_skipped_zero_keys);
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
    job.train.zero_stage = is_on ? 1 : 0;
    return {};
  }
  return read_zero(*section, job);
}

Result<void> read_pipeline(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("pipeline");
  if (section == nullptr) {
    return {};
  }
  MapReader pipeline(*section, {job.warnings, job.unmodelled});
  pipeline.read("pipe_partitioned", deepspeed::options(job).pipe_partitioned);
  pipeline.read("grad_partitioned", deepspeed::options(job).grad_partitioned);
  pipeline.skip_unless_off("activation_checkpoint_interval");
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
  const std::int64_t of_a_rank = job.train.micro_batch > 0 && job.train.micro_batches > 0 &&
                                         job.train.micro_batch <= total / job.train.micro_batches
                                     ? job.train.micro_batch * job.train.micro_batches
                                     : total + 1;
  if (has_micro_batch && has_steps && total % of_a_rank != 0) {
    settings.fail("train_batch_size",
                  fmt::format("is {}, which no number of ranks makes of {} sequences and {} steps each",
                              total, job.train.micro_batch, job.train.micro_batches));
  }
  if (has_micro_batch && !has_steps) {
    job.train.micro_batches = 0;
  } else if (!has_micro_batch) {
    job.train.micro_batch = 0;
  }
}

Result<void> read_checkpointing(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("activation_checkpointing");
  if (section == nullptr) {
    return {};
  }
  MapReader checkpointing(*section, {job.warnings, job.unmodelled});
  checkpointing.read("partition_activations", job.train.partition_activations);
  checkpointing.accept(k_checkpointing_keys);
  return checkpointing.finish();
}

void read_optimizer(MapReader& settings) {
  const ConfigNode* optimizer = settings.map("optimizer");
  const ConfigNode* type = optimizer == nullptr ? nullptr : find(*optimizer, "type");
  if (type == nullptr || is_off(*type)) {
    return;
  }
  std::string name = type->text;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (is_one_of(name, "onebitadam zerooneadam onebitlamb")) {
    settings.fail("optimizer", fmt::format("is {}, whose compressed all_reduce has no rules here", name));
  } else if (!is_one_of(name, k_local_optimizers)) {
    settings.skip("optimizer", "optimizer " + shown_text(type->text));
  }
}

void refuse_what_has_no_rules(MapReader& settings) {
  settings.refuse_true("sparse_gradients",
                       "sends embedding gradients as sparse tensors, which has no rules here");
  settings.refuse_true("disable_allgather", "is not supported");
  for (const std::string_view section : {"amp", "curriculum_learning", "elasticity"}) {
    if (is_enabled(settings, section)) {
      settings.fail(section, "changes what is sent and has no rules here; switch it off");
    }
  }
  settings.refuse("compression_training", "changes what is sent and has no rules here; leave it out");
  settings.refuse("quantize_training", "changes what is sent and has no rules here; leave it out");
}

/// Whether a section that is off by default is switched on.
bool is_on(const ConfigNode* section) {
  if (section == nullptr || section->kind != ConfigNode::Kind::map) {
    return section != nullptr && !is_off(*section);
  }
  const ConfigNode* enabled = find(*section, "enabled");
  return enabled != nullptr && !is_off(*enabled);
}

/// Notes what is skipped: sections that are switched on, and degrees of more than one.
void skip_the_rest(MapReader& settings) {
  for (const std::string_view section :
       {"autotuning", "data_efficiency", "eigenvalue", "hybrid_engine", "progressive_layer_drop"}) {
    if (is_on(settings.node(section))) {
      settings.skip(section);
    }
  }
  settings.skip_unless_off("weight_quantization");
  const ConfigNode* compile = settings.node("compile");
  const ConfigNode* deep = compile == nullptr ? nullptr : find(*compile, "deepcompile");
  if (deep != nullptr && !is_off(*deep)) {
    settings.skip("compile", "compile.deepcompile");
  } else if (is_on(compile)) {
    settings.skip("compile");
  }
  const ConfigNode* tensor = settings.node("tensor_parallel");
  const ConfigNode* degree = tensor == nullptr ? nullptr : find(*tensor, "autotp_size");
  const bool is_one = degree != nullptr && as_integer(*degree).value_or(0) == 1;
  if (tensor != nullptr && !is_off(*tensor) && !is_one) {
    settings.skip("tensor_parallel");
  }
  settings.skip_unless_one("sequence_parallel_size");
  settings.skip_unless_one("data_parallel_size");
}

}  // namespace

bool is_deepspeed_key(std::string_view key) { return is_known_key(deepspeed::training_keys(), key); }

Result<void> read_deepspeed(const ConfigNode& settings, Job& job, const TrainingArguments& given) {
  const ConfigNode settled = with_auto_settled(settings, given, job);
  MapReader reader(settled, {job.warnings, job.unmodelled});
  for (const auto read : {read_precision, read_zero_section, read_pipeline, read_checkpointing}) {
    if (const Result<void> ok = read(reader, job); !ok) {
      return ok;
    }
  }
  read_batch(reader, job);
  reader.read("gradient_clipping", job.train.gradient_clipping);
  if (job.train.gradient_clipping < 0) {
    reader.fail("gradient_clipping", "must not be negative");
  }
  read_optimizer(reader);
  if (const Result<void> ok = deepspeed::read_optimizer_section(reader, job.recipe); !ok) {
    return ok;
  }
  refuse_what_has_no_rules(reader);
  skip_the_rest(reader);
  accept_known_keys(reader, settled, deepspeed::training_keys(), job.recipe);
  return reader.finish();
}

ConfigReader deepspeed::reader() {
  return {
      .name = "a DeepSpeed JSON",
      .framework = k_name,
      .recognises = [](const ConfigFile& file) { return file.is_json() && file.has_any(is_deepspeed_key); },
      .add = [](const ConfigNode& file, Job& job) { return read_deepspeed(file, job); }};
}

}  // namespace commlens
