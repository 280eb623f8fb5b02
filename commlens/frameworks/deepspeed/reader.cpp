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
#include "commlens/frameworks/deepspeed/sections.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

using deepspeed::Options;
using deepspeed::options;

constexpr std::string_view k_precision_keys =
    "auto_cast consecutive_hysteresis dynamic_loss_scale fp16 hysteresis immediate_grad_update "
    "initial_scale_power loss_scale loss_scale_window loss_scaler min_loss_scale min_scale opt_level type";

constexpr std::string_view k_pipeline_keys = "micro_batches partition seed_layers stages use_reentrant";

constexpr std::string_view k_checkpointing_keys =
    "contiguous_memory_optimization cpu_checkpointing number_checkpoints profile "
    "synchronize_checkpoint_boundary";

// Optimizers that exchange nothing of their own (in lower case).
constexpr std::string_view k_local_optimizers =
    "adadelta adafactor adagrad adam adamax adamw cpuadam cpulion fusedadam fusedlamb fusedlion lamb "
    "lion muadam muadamw musgd rmsprop sgd";

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
  if (map == nullptr) {
    return false;
  }
  Options unused;
  TrainingRecipe unused_recipe;
  Options& own = enabled ? options(job) : unused;
  MapReader reader(*map, {job.warnings, job.unmodelled});
  reader.accept("enabled");
  if (section == "fp16") {
    read_loss_scaling(reader, (enabled ? job.recipe : unused_recipe).loss_scaling);
  } else if (reader.has("check_grad_overflow")) {
    reader.read("check_grad_overflow", own.checks_bf16_overflow.emplace());
  }
  reader.accept(k_precision_keys);
  reader.skip_unless_off("fp16_master_weights_and_grads bf16_master_weights_and_grads bf16_optimizer_states");
  settings.pass_on(reader.finish());
  return enabled;
}

/// The model stays in fp32, some of its parameters are computed and reduced in another dtype.
Result<void> read_autocast(MapReader& settings, Job& job) {
  const bool enabled = is_enabled(settings, "torch_autocast");
  const ConfigNode* map = settings.map("torch_autocast");
  if (!enabled || map == nullptr) {
    return {};
  }
  MapReader reader(*map, {job.warnings, job.unmodelled});
  reader.accept("enabled");
  std::optional<DType> dtype = DType::bf16;
  read_dtype(reader, "dtype", dtype);
  options(job).autocast = dtype;
  if (reader.has("lower_precision_safe_modules")) {
    reader.read("lower_precision_safe_modules", options(job).autocast_modules.emplace());
  }
  return reader.finish();
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
  std::optional<DType> of_sequence;
  read_dtype(settings, "seq_parallel_communication_data_type", of_sequence);
  options(job).sequence_communication_dtype = of_sequence.value_or(options(job).sequence_communication_dtype);
  if (const Result<void> ok = read_autocast(settings, job); !ok) {
    return ok;
  }
  if (const ConfigNode* types = settings.map("data_types")) {
    MapReader reader(*types, {job.warnings, job.unmodelled});
    read_dtype(reader, "grad_accum_dtype", deepspeed::options(job).grad_accumulation_dtype);
    return reader.finish();
  }
  return {};
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
  return deepspeed::read_zero(*section, job);
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

/// What DeepSpeed makes of a name in lower case. Source: runtime/engine.py:2476 _configure_basic_optimizer of
/// 0.19.8.
deepspeed::OptimizerKind optimizer_kind(const ConfigNode& section, std::string_view name) {
  const ConfigNode* params = find(section, "params");
  const ConfigNode* torch = params == nullptr ? nullptr : find(*params, "torch_adam");
  const bool is_torch = torch != nullptr && !is_off(*torch);
  if ((name == "adam" || name == "adamw") && !is_torch) {
    return deepspeed::OptimizerKind::fused_adam;
  }
  return name == "lamb" ? deepspeed::OptimizerKind::fused_lamb : deepspeed::OptimizerKind::other;
}

void read_optimizer(MapReader& settings, Job& job) {
  const ConfigNode* optimizer = settings.map("optimizer");
  const ConfigNode* type = optimizer == nullptr ? nullptr : find(*optimizer, "type");
  if (type == nullptr || is_off(*type)) {
    return;
  }
  std::string name = type->text;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  options(job).optimizer = optimizer_kind(*optimizer, name);
  if (const ConfigNode* legacy = find(*optimizer, "legacy_fusion")) {
    options(job).has_legacy_fusion = !is_off(*legacy);
  }
  if (is_one_of(name, "onebitadam zerooneadam onebitlamb")) {
    settings.fail("optimizer", fmt::format("is {}, whose compressed all_reduce has no rules here (DeepSpeed "
                                           "0.19.7 removed it)",
                                           name));
  } else if (!is_one_of(name, k_local_optimizers)) {
    settings.skip("optimizer", "optimizer " + shown_text(type->text));
  }
}

/// Sections that newer releases removed (release_checks.cpp).
void read_removed(MapReader& settings, Options& own) {
  settings.refuse_true("disable_allgather", "is not supported");
  for (const char* key :
       {"amp", "compression_training", "curriculum_learning", "eigenvalue", "elasticity", "graph_harvesting",
        "nebula", "progressive_layer_drop", "quantize_training", "sparse_attention", "sparse_gradients"}) {
    deepspeed::note_removed(settings, key, own);
  }
}

/// What decides no size, but what DeepSpeed refuses beside reduce_scatter or stage 3.
void read_averaging(MapReader& settings, Options& own) {
  double divisor = 1;
  bool is_prescaled = false;
  settings.read("gradient_predivide_factor", divisor);
  settings.read("prescale_gradients", is_prescaled);
  own.is_predivided = is_prescaled || divisor != 1;
  settings.choose("gradient_allreduce_op", {{"mean", false}, {"sum", true}}, own.sums_gradients);
}

Result<void> read_checkpoint(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("checkpoint");
  if (section == nullptr) {
    return {};
  }
  MapReader reader(*section, {job.warnings, job.unmodelled});
  std::string mode = "warn";
  reader.read("tag_validation", mode);
  std::transform(mode.begin(), mode.end(), mode.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (!is_one_of(mode, "ignore warn fail")) {
    reader.fail("tag_validation", fmt::format("is '{}'; it is Ignore, Warn or Fail", shown_text(mode)));
  }
  options(job).compares_tags = mode != "ignore";
  reader.accept("load_universal use_node_local_storage parallel_write writer checkpoint_serialization");
  return reader.finish();
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
  for (const std::string_view section : {"autotuning", "data_efficiency", "hybrid_engine"}) {
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
}

}  // namespace

bool is_deepspeed_key(std::string_view key) { return is_known_key(deepspeed::training_keys(), key); }

Result<void> read_deepspeed(const ConfigNode& settings, Job& job, const TrainingArguments& given) {
  const ConfigNode settled = with_auto_settled(settings, given, job);
  MapReader reader(settled, {job.warnings, job.unmodelled});
  for (const auto read : {read_precision, read_zero_section, read_pipeline, read_checkpointing,
                          read_checkpoint, deepspeed::read_parallel}) {
    if (const Result<void> ok = read(reader, job); !ok) {
      return ok;
    }
  }
  read_batch(reader, job);
  job.train.clipping_is_given = job.train.clipping_is_given || reader.has("gradient_clipping");
  reader.read("gradient_clipping", job.train.gradient_clipping);
  reader.read("managed_gradient_accumulation", options(job).manages_accumulation);
  if (job.train.gradient_clipping < 0) {
    reader.fail("gradient_clipping", "must not be negative");
  }
  read_optimizer(reader, job);
  if (const Result<void> ok = deepspeed::read_optimizer_section(reader, job.recipe); !ok) {
    return ok;
  }
  read_averaging(reader, options(job));
  read_removed(reader, options(job));
  skip_the_rest(reader);
  accept_known_keys(reader, settled, deepspeed::training_keys(), job.recipe);
  return reader.finish();
}

namespace {

/// DeepSpeed trains in fp32 what no section switches to 16 bits.
Result<void> add_file(const ConfigNode& file, Job& job) {
  const bool names_precision = find(file, "fp16") != nullptr || find(file, "bf16") != nullptr ||
                               find(file, "bfloat16") != nullptr || find(file, "torch_autocast") != nullptr;
  if (!names_precision && job.train.dtype != DType::fp32) {
    job.warnings.push_back(fmt::format(
        "{} switches neither fp16 nor bf16 on, so that DeepSpeed trains in fp32; the model's {} is "
        "predicted: add \"{}\": {{\"enabled\": true}}, or --dtype fp32",
        file.where(), name_of(job.train.dtype), name_of(job.train.dtype)));
  }
  return read_deepspeed(file, job);
}

}  // namespace

ConfigReader deepspeed::reader() {
  return {
      .name = "a DeepSpeed JSON",
      .framework = k_name,
      .recognises = [](const ConfigFile& file) { return file.is_json() && file.has_any(is_deepspeed_key); },
      .add = add_file};
}

}  // namespace commlens
