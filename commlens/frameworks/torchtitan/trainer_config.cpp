#include "commlens/frameworks/torchtitan/trainer_config.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/torch/schedules.hpp"
#include "commlens/frameworks/torchtitan/settings.hpp"

namespace commlens::torchtitan {
namespace {

using Section = Result<void> (*)(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes);

constexpr std::string_view k_no_rules = "has no rules here; leave it out";

/// A degree or a batch of which -1 means that it follows from the others, which is 0 here.
void read_or_open(MapReader& reader, std::string_view key, std::int64_t& value) {
  if (!reader.has(key)) {
    return;
  }
  std::int64_t number = -1;
  reader.read(key, number, -1);
  if (number == 0) {
    reader.fail(key, "is 0; it must be -1 or at least 1");
  }
  value = std::max<std::int64_t>(number, 0);
}

/// Keys of sources after 0.3.0, whose batches are counted in tokens.
void refuse_later_keys(MapReader& reader) {
  constexpr std::pair<std::string_view, std::string_view> later[] = {
      {"num_tokens_per_microbatch_per_dp_rank", "local_batch_size and seq_len"},
      {"num_tokens_per_train_step", "global_batch_size"},
      {"max_context_length", "seq_len"},
      {"num_pp_microbatches", "pipeline_parallel_microbatch_size"}};
  for (const auto& [key, instead] : later) {
    reader.refuse(key, fmt::format("is of sources after torchtitan 0.3.0; use {}", instead));
  }
}

Result<void> read_training(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  reader.read("local_batch_size", config.local_batch);
  read_or_open(reader, "global_batch_size", config.global_batch);
  reader.read("seq_len", config.sequence);
  config.has_sequence = config.has_sequence || reader.has("seq_len");
  reader.read("max_norm", config.max_norm);
  if (!reader.failed() && !(config.max_norm > 0)) {
    reader.fail("max_norm", "must be more than 0: torchtitan always clips gradients");
  }
  reader.read("enable_cpu_offload", config.is_offloaded);
  bool has_no_graphs = !config.has_cuda_graphs;
  reader.read("disable_cuda_graphs", has_no_graphs);
  config.has_cuda_graphs = !has_no_graphs;
  reader.choose("dtype", {{"float32", DType::fp32}, {"bfloat16", DType::bf16}}, config.dtype);
  reader.choose("mixed_precision_param", {{"float32", DType::fp32}, {"bfloat16", DType::bf16}},
                config.param_dtype);
  DType reduce = DType::fp32;
  reader.choose("mixed_precision_reduce", {{"float32", DType::fp32}}, reduce);
  refuse_later_keys(reader);
  if (std::int64_t steps = 0; reader.has("steps")) {
    reader.read("steps", steps);
    config.steps = steps;
  }
  reader.accept("gc_freq gc_debug");
  return reader.finish();
}

constexpr std::int64_t k_most_less_layers = 1'000'000;

void read_pipeline(MapReader& reader, TrainerConfig& config) {
  using pytorch::PipelineSchedule;
  reader.read("pipeline_parallel_degree", config.pp);
  reader.choose("pipeline_parallel_schedule",
                {{"1F1B", PipelineSchedule::one_f_one_b},
                 {"GPipe", PipelineSchedule::gpipe},
                 {"Interleaved1F1B", PipelineSchedule::interleaved_1f1b},
                 {"LoopedBFS", PipelineSchedule::looped_bfs},
                 {"InterleavedZeroBubble", PipelineSchedule::interleaved_zero_bubble},
                 {"ZBVZeroBubble", PipelineSchedule::zbv_zero_bubble},
                 {"DualPipeV", PipelineSchedule::dual_pipe_v}},
                config.schedule);
  reader.read("pipeline_parallel_microbatch_size", config.pipeline_micro_batch);
  for (const auto& [key, less] :
       {std::pair{"pipeline_parallel_first_stage_less_layers", &config.first_stage_less_layers},
        {"pipeline_parallel_last_stage_less_layers", &config.last_stage_less_layers}}) {
    reader.read(key, *less, 0);
    if (*less > k_most_less_layers) {
      reader.fail(key, fmt::format("must be at most {}", k_most_less_layers));
    }
  }
  if (reader.has("pipeline_parallel_layers_per_stage")) {
    std::int64_t layers = 1;
    reader.read("pipeline_parallel_layers_per_stage", layers);
    config.layers_per_stage = layers;
  }
  const ConfigNode* const csv = reader.node("pipeline_parallel_schedule_csv");
  if (csv != nullptr && !csv->text.empty()) {
    reader.fail("pipeline_parallel_schedule_csv", k_no_rules);
  }
  reader.refuse("module_fqns_per_model_part",
                "has no rules here; use pipeline_parallel_layers_per_stage or leave it out");
}

Result<void> read_parallelism(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  reader.read("data_parallel_replicate_degree", config.replicate);
  read_or_open(reader, "data_parallel_shard_degree", config.shard);
  reader.choose("fsdp_reshard_after_forward",
                {{"default", Reshard::by_default}, {"always", Reshard::always}, {"never", Reshard::never}},
                config.reshard);
  reader.read("tensor_parallel_degree", config.tp);
  reader.read("enable_sequence_parallel", config.splits_sequence);
  reader.read("context_parallel_degree", config.cp);
  reader.read("expert_parallel_degree", config.ep);
  read_pipeline(reader, config);
  bool is_recorded = true;
  if (const ConfigNode* const backend = reader.node("spmd_backend");
      backend != nullptr && (backend->text == "partial_dtensor" || backend->text == "full_dtensor")) {
    reader.fail("spmd_backend", fmt::format("{} has no rules here; use spmd_types", backend->text));
  }
  reader.choose("spmd_backend", {{"spmd_types", true}}, is_recorded);
  reader.refuse_true("enable_fsdp_symm_mem", k_no_rules);
  refuse_later_keys(reader);
  reader.accept("context_parallel_load_balancer context_parallel_ptrr_mask_key");  // order of tokens alone
  return reader.finish();
}

Result<void> read_recompute(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  if (const ConfigNode* const mode = reader.node("mode"); mode != nullptr && mode->text == "memory_budget") {
    reader.fail("mode", "memory_budget has no rules here; use none, selective or full");
  }
  reader.choose("mode",
                {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
                config.recompute);
  reader.accept("preserve_rng_state determinism_check debug force_recompute_mm_shapes_by_fqns");
  return reader.finish();
}

Result<void> read_loss(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  bool is_chunked = config.loss_chunks > 0;
  reader.read("chunked", is_chunked);
  std::int64_t chunks = config.loss_chunks > 0 ? config.loss_chunks : TrainerConfig{}.loss_chunks;
  reader.read("num_chunks", chunks);
  if (!is_chunked && reader.has("num_chunks")) {
    reader.fail("num_chunks", "belongs to the chunked loss; this configuration has another one");
  }
  config.loss_chunks = is_chunked ? chunks : 0;
  if (const ConfigNode* const function = reader.node("loss_fn");
      function != nullptr && function->kind == ConfigNode::Kind::scalar) {
    bool is_known = true;
    reader.choose("loss_fn", {{"cross_entropy", true}}, is_known);
  }
  reader.accept("global_vocab_size");
  return reader.finish();
}

/// Steps between two of something.
void read_period(MapReader& reader, std::string_view key, std::int64_t& steps) {
  constexpr std::int64_t most = 1'000'000'000;
  reader.read(key, steps);
  if (steps > most) {
    reader.fail(key, "must be at most 1000000000 steps");
  }
}

Result<void> read_metrics(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  read_period(reader, "log_freq", config.log_frequency);
  reader.accept("disable_color_printing enable_tensorboard enable_wandb save_for_all_ranks save_tb_folder");
  return reader.finish();
}

Result<void> read_communication(const ConfigNode& section, TrainerConfig& /*config*/, ReaderNotes notes) {
  MapReader reader(section, notes);
  bool is_recorded = true;
  for (const std::string_view other : {"local_tensor", "torchcomms"}) {
    if (const ConfigNode* const mode = reader.node("mode"); mode != nullptr && mode->text == other) {
      reader.fail("mode", fmt::format("{} has no rules here; use default", other));
    }
  }
  reader.choose("mode", {{"default", true}, {"fake_backend", true}}, is_recorded);
  reader.accept(
      "init_timeout_seconds save_traces_file_prefix save_traces_folder trace_buf_size train_timeout_seconds");
  return reader.finish();
}

Result<void> read_checkpoints(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  Checkpoints& checkpoints = config.checkpoints;
  reader.read("enable", checkpoints.is_used);
  read_period(reader, "interval", checkpoints.interval);
  reader.choose("async_mode", {{"disabled", false}, {"async", true}, {"async_with_pinned_mem", true}},
                checkpoints.is_async);
  reader.read("enable_first_step_checkpoint", checkpoints.saves_first_step);
  bool only_loads = false;
  reader.read("load_only", only_loads);
  const std::string_view unknown =
      "initial_load_path initial_load_in_hf initial_load_in_hf_quantized last_save_in_hf load_only";
  if (checkpoints.is_used) {
    reader.refuse_true("create_seed_checkpoint", "saves a model and trains nothing; leave it out");
    reader.skip_unless_off(unknown);  // what is loaded, and written in another format
  }
  checkpoints.is_used = checkpoints.is_used && !only_loads;
  reader.accept(unknown);
  reader.accept(
      "create_seed_checkpoint exclude_from_loading export_dtype folder initial_load_model_only keep_latest_k "
      "last_save_model_only load_step");
  return reader.finish();
}

Result<void> read_validator(const ConfigNode& section, TrainerConfig& /*config*/, ReaderNotes notes) {
  MapReader reader(section, notes);
  reader.refuse_true("enable", "has no rules: validation sends messages of its own; leave it out");
  reader.accept("dataloader freq steps");
  return reader.finish();
}

Result<void> read_compile(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  reader.read("enable", config.compiles);
  reader.refuse_true("enable_async_tensor_parallel", k_no_rules);
  if (const ConfigNode* const parts = reader.node("components")) {
    std::string all = parts->text;  // "model,loss" of an argument
    for (const ConfigNode& part : parts->items) {
      all += part.text + ",";
    }
    config.compiles_model = all.find("model") != std::string::npos;
  }
  reader.accept("backend");
  return reader.finish();
}

Result<void> read_debug(const ConfigNode& section, TrainerConfig& config, ReaderNotes notes) {
  MapReader reader(section, notes);
  if (const ConfigNode* const seed = reader.node("seed"); seed != nullptr && seed->text == "None") {
    config.seed.reset();
  } else if (seed != nullptr) {
    std::int64_t number = 0;
    reader.read("seed", number, INT64_MIN);
    config.seed = number;
  }
  reader.read("moe_force_load_balance", config.forces_balance);
  reader.refuse_true("batch_invariant", "is refused by torchtitan's trainer too; leave it out");
  reader.skip_unless_off("spmd_typechecking");
  reader.accept(
      "detect_anomaly deterministic deterministic_warn_only enable_structured_logging print_config "
      "save_config_file");
  return reader.finish();
}

/// Other optimizers than Adam send what no rule covers.
bool names_muon(const ConfigNode& node) {
  return (node.kind == ConfigNode::Kind::scalar && node.text.find("Muon") != std::string::npos) ||
         std::any_of(node.items.begin(), node.items.end(), names_muon);
}

Result<void> read_optimizer(const ConfigNode& section, TrainerConfig& /*config*/, ReaderNotes /*notes*/) {
  return names_muon(section) ? Result<void>(failure(fmt::format(
                                   "{}: the optimizer Muon has no rules; use AdamW", section.where())))
                             : Result<void>();
}

Result<void> read_override(const ConfigNode& section, TrainerConfig& /*config*/, ReaderNotes notes) {
  MapReader reader(section, notes);
  reader.skip_unless_off("imports");
  return reader.finish();
}

constexpr std::pair<std::string_view, Section> k_sections[] = {
    {"training", read_training},
    {"parallelism", read_parallelism},
    {"activation_checkpoint", read_recompute},
    {"loss", read_loss},
    {"metrics", read_metrics},
    {"comm", read_communication},
    {"checkpoint", read_checkpoints},
    {"validator", read_validator},
    {"compile", read_compile},
    {"debug", read_debug},
    {"optimizer", read_optimizer},
    {"override", read_override},
};

// Sections and keys that change no message: files, data, the optimizer's own numbers.
constexpr std::string_view k_irrelevant =
    "dataloader dump_folder hf_assets_path lr_scheduler profiler tokenizer";

/// What torchtitan refuses to run with these batches and stages.
Result<void> check_pipeline(const TrainerConfig& config, const ModelConfig& model, std::string_view where) {
  if (config.pp == 1) {
    return {};
  }
  if (config.local_batch % config.pipeline_micro_batch != 0) {
    return failure(
        fmt::format("{}: local_batch_size {} is not divisible by pipeline_parallel_microbatch_size {}", where,
                    config.local_batch, config.pipeline_micro_batch));
  }
  if (!config.layers_per_stage) {
    return {};
  }
  const std::optional<std::int64_t> stages = stages_per_rank(
      {model.layers, config.first_stage_less_layers, config.last_stage_less_layers, *config.layers_per_stage},
      config.pp);
  const bool is_single = pytorch::usual_schedule(config.schedule) != Schedule::interleaved;
  if (!stages || (is_single ? *stages != 1 : *stages < 2)) {
    return failure(
        fmt::format("{}: pipeline_parallel_layers_per_stage {} does not give {} of {} layers to each of {} "
                    "pipeline ranks",
                    where, *config.layers_per_stage, is_single ? "one stage" : "two or more stages",
                    model.layers, config.pp));
  }
  return {};
}

void note_what_is_not_run(const TrainerConfig& config, const ModelConfig& model, std::string_view where,
                          Job& job) {
  if (config.compiles && config.compiles_model) {
    job.warnings.push_back(
        fmt::format("{}: 'compile.enable' has no rules here; the model is taken as not compiled", where));
    job.unmodelled.push_back(fmt::format("'compile.enable' ({}) has no rules", where));
  }
  const bool has_experts_apart = model.experts > 0 && config.ep > 1;
  if (config.has_cuda_graphs && (config.pp > 1 || has_experts_apart)) {
    job.warnings.push_back(
        fmt::format("{}: torchtitan runs this with --training.disable_cuda_graphs alone", where));
  }
}

}  // namespace

TrainerConfig config_of(const Recipe& recipe) {
  TrainerConfig config;
  config.module = recipe.module;
  config.config = recipe.name;
  config.local_batch = recipe.local_batch;
  config.sequence = recipe.sequence;
  config.has_cuda_graphs = recipe.has_cuda_graphs;
  config.shard = recipe.shards ? 0 : 1;
  config.tp = recipe.tp;
  config.splits_sequence = recipe.splits_sequence;
  config.schedule = recipe.schedule;
  config.ep = recipe.ep;
  config.recompute = recipe.recompute;
  config.loss_chunks = recipe.loss_chunks;
  config.log_frequency = recipe.log_frequency;
  config.checkpoints.is_used = recipe.saves_checkpoints;
  config.checkpoints.interval = recipe.checkpoint_interval;
  config.compiles = recipe.compiles_loss;
  config.compiles_model = !recipe.compiles_loss;
  return config;
}

Result<void> read_sections(MapReader& reader, TrainerConfig& config, ReaderNotes notes) {
  for (const auto& [name, read] : k_sections) {
    const ConfigNode* const section = reader.map(name);
    if (section == nullptr) {
      continue;
    }
    if (Result<void> ok = read(*section, config, notes); !ok) {
      return ok;
    }
  }
  reader.accept(k_irrelevant);
  return {};
}

Result<Job> job_of(const TrainerConfig& config, const ModelConfig& model, std::string_view where) {
  if (const Result<void> ok = check_pipeline(config, model, where); !ok) {
    return tl::unexpected(ok.error());
  }
  Job job;
  job.framework = k_name;
  job.model = model;
  apply(config, job);
  note_what_is_not_run(config, model, where, job);
  return job;
}

}  // namespace commlens::torchtitan
