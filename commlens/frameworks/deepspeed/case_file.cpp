// What a case file holds of DeepSpeed: its JSON, and options of the training script.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::int64_t k_absent = 0;  // a batch size that the case leaves to its DeepSpeed map (CaseRules)
constexpr std::int64_t k_most_tokens = 1'000'000'000;
constexpr std::int64_t k_largest_rank = 1'000'000;
constexpr std::int64_t k_last_iteration = 1000;  // that an option may single out

void read_engine(MapReader& reader, Options& own) {
  enum class Engine : std::uint8_t { plain, pipeline, dual };
  Engine engine = own.dual_pipe ? Engine::dual : own.pipeline_engine ? Engine::pipeline : Engine::plain;
  reader.choose("engine",
                {{"pipeline", Engine::pipeline}, {"dualpipev", Engine::dual}, {"default", Engine::plain}},
                engine);
  own.pipeline_engine = engine != Engine::plain;
  own.dual_pipe = engine == Engine::dual;
}

/// Backward passes that the engine does not count itself, or reduces together.
void read_accumulation(MapReader& reader, Options& own) {
  std::int64_t unmanaged = 0;
  std::int64_t coalesced = 0;
  reader.read("unmanaged_backwards_per_step", unmanaged, 0);
  reader.accept("backwards_per_step");
  const ConfigNode* node = reader.node("coalesce_grad_reduction");
  if (node != nullptr && as_boolean(*node)) {
    reader.read("coalesce_grad_reduction", own.coalesces_reductions);
  } else {
    reader.read("coalesce_grad_reduction", coalesced, 0);
    own.coalesces_reductions = own.coalesces_reductions || coalesced > 0;
  }
  own.manages_accumulation = own.manages_accumulation && unmanaged == 0;
}

void check_iteration(MapReader& reader, std::string_view key, std::int64_t iteration) {
  if (iteration > k_last_iteration) {
    reader.fail(
        key, fmt::format("names iteration {}; the last one that can be is {}", iteration, k_last_iteration));
  }
}

void read_iterations(MapReader& reader, Options& own) {
  reader.read("eval_forward_before_iterations", own.evaluated_before, 0);
  reader.read("overflow_iterations", own.overflows_in, 0);
  for (const std::int64_t iteration : own.evaluated_before) {
    check_iteration(reader, "eval_forward_before_iterations", iteration);
  }
  for (const std::int64_t iteration : own.overflows_in) {
    check_iteration(reader, "overflow_iterations", iteration);
  }
  if (reader.node("save_checkpoint_after_iteration") != nullptr) {
    reader.read("save_checkpoint_after_iteration", own.saves_after.emplace(), 0);
    check_iteration(reader, "save_checkpoint_after_iteration", *own.saves_after);
  }
}

Result<void> read_mixture(const ConfigNode& map, Job& job) {
  Mixture& mixture = options(job).mixture;
  MapReader reader(map, {job.warnings, job.unmodelled});
  reader.read("layers", mixture.layers, 0);
  reader.read("capacity_factor", mixture.capacity_factor);
  reader.read("min_capacity", mixture.min_capacity, 0);
  reader.read("max_group_size", mixture.largest_group);
  reader.read("drop_tokens", mixture.drops_tokens);
  reader.read("enable_expert_tensor_parallelism", mixture.splits_experts);
  reader.accept("use_rts expert");
  constexpr double largest = 1e6;
  if (!(mixture.capacity_factor > 0 && mixture.capacity_factor <= largest)) {
    reader.fail("capacity_factor", "must be above 0 and at most 1,000,000");
  }
  if (mixture.min_capacity > k_most_tokens) {
    reader.fail("min_capacity", "must be at most 1,000,000,000");
  }
  return reader.finish();
}

Result<void> read_low_rank(const ConfigNode& map, Job& job) {
  LowRank& low_rank = options(job).low_rank;
  MapReader reader(map, {job.warnings, job.unmodelled});
  reader.read("targets", low_rank.targets);
  reader.require("rank", low_rank.rank);
  if (low_rank.rank > k_largest_rank) {
    reader.fail("rank", "must be at most 1,000,000");
  }
  bool is_frozen = true;
  reader.read("frozen_base", is_frozen);
  if (!is_frozen) {
    reader.fail("frozen_base", "is false; a base that trains has no rules here");
  }
  return reader.finish();
}

Result<void> read_gathered(const ConfigNode& map, Job& job) {
  GatheredParameters& gathered = options(job).gathered;
  MapReader reader(map, {job.warnings, job.unmodelled});
  reader.read("modules", gathered.modules);
  if (reader.node("modifier_rank") != nullptr) {
    reader.read("modifier_rank", gathered.modifier_rank.emplace(), 0);
  }
  reader.accept("modifier_rank");
  return reader.finish();
}

Result<void> read_skipped(const ConfigNode& map, Job& job) {
  SkippedBlock& skipped = options(job).skipped;
  MapReader reader(map, {job.warnings, job.unmodelled});
  reader.read("block", skipped.block, 0);
  reader.read("iterations", skipped.iterations, 0);
  for (const std::int64_t iteration : skipped.iterations) {
    check_iteration(reader, "iterations", iteration);
  }
  return reader.finish();
}

Result<void> read_trainer(const ConfigNode& map, Job& job) {
  MapReader reader(map, {job.warnings, job.unmodelled});
  options(job).is_trainer = true;
  bool is_bf16 = job.train.dtype == DType::bf16;
  reader.read("bf16", is_bf16);
  if (is_bf16 != (job.train.dtype == DType::bf16)) {
    reader.fail("bf16", "and 'precision' differ; make them agree");
  }
  reader.choose("logging_strategy", {{"steps", true}, {"no", false}}, options(job).logs_steps);
  return reader.finish();
}

Result<void> read_accelerate(const ConfigNode& map, Job& job) {
  MapReader reader(map, {job.warnings, job.unmodelled});
  options(job).is_accelerate = true;
  reader.accept("mixed_precision");
  return reader.finish();
}

}  // namespace

void read_case_layout(MapReader& reader, Job& job) { reader.read("sequence", job.layout.cp); }

void read_case_options(MapReader& reader, Job& job) {
  Options& own = options(job);
  reader.choose("parameter_groups", {{"weight_decay", true}, {"single", false}}, own.weight_decay_groups);
  read_engine(reader, own);
  reader.read("attention_mask", own.attention_mask);
  reader.read("pipe_partition_method", own.partition_method);
  reader.read("dynamic_shape", own.dynamic_shape);
  std::vector<std::string> losses;
  reader.read("additional_losses", losses);
  own.additional_losses = static_cast<std::int64_t>(losses.size());
  reader.read("zero_init", own.zero_init);
  reader.read("checkpoint_reentrant", own.has_reentrant_checkpoints);
  reader.read("tp_model_init", own.calls_tp_model_init);
  reader.choose("sequence_parallel_groups", {{"mpu", SequenceGroups::mpu}, {"mesh", SequenceGroups::mesh}},
                own.sequence_groups);
  reader.choose("dataloader", {{"UlyssesSPDataLoaderAdapter", true}}, own.has_sequence_loader);
  reader.read("gpus_per_node", own.gpus_per_node);
  reader.read("frozen", own.frozen);
  read_accumulation(reader, own);
  read_iterations(reader, own);
  const std::initializer_list<std::pair<std::string_view, Result<void> (*)(const ConfigNode&, Job&)>> maps = {
      {"moe", read_mixture},        {"lora", read_low_rank},   {"gathered_parameters", read_gathered},
      {"skip_block", read_skipped}, {"trainer", read_trainer}, {"accelerate", read_accelerate}};
  for (const auto& [key, read] : maps) {
    if (const ConfigNode* map = reader.map(key)) {
      reader.pass_on(read(*map, job));
    }
  }
}

/// The batch and the precision are in the case and in its DeepSpeed map: both must say the same.
Result<void> read_case_section(std::string_view /*name*/, const ConfigNode& section, Job& job) {
  const DType precision = job.train.dtype;
  const std::int64_t micro_batch = job.train.micro_batch;
  const std::int64_t micro_batches = job.train.micro_batches;
  job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
  job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  TrainingArguments given;
  given.are_all_known = true;
  given.dtype = precision;
  if (micro_batch != k_absent) {
    given.micro_batch = micro_batch;
  }
  if (micro_batches != k_absent) {
    given.micro_batches = micro_batches;
  }
  if (const Result<void> ok = read_deepspeed(section, job, given); !ok) {
    return ok;
  }
  if (job.train.dtype != precision) {
    return failure(fmt::format("{}: the deepspeed map trains in {}, 'precision' is {}; make them agree",
                               section.where(), name_of(job.train.dtype), name_of(precision)));
  }
  const bool restates_batch =
      job.global_batch > 0 && (job.train.micro_batch == 0 || job.train.micro_batches == 0);
  if (restates_batch) {
    job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
    job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  }
  if (micro_batch != k_absent && job.train.micro_batch != micro_batch) {
    return failure(
        fmt::format("{}: train_micro_batch_size_per_gpu is {}, 'micro_batch' is {}; make them agree",
                    section.where(), job.train.micro_batch, micro_batch));
  }
  if (micro_batches != k_absent && job.train.micro_batches != micro_batches) {
    // Right where the engine does not count backward passes, as options may say (checks.cpp).
    options(job).uncounted_passes =
        fmt::format("{}: gradient_accumulation_steps is {}, 'micro_batches' is {}; make them agree",
                    section.where(), job.train.micro_batches, micro_batches);
    options(job).counted_steps = job.train.micro_batches;
    job.train.micro_batches = micro_batches;
  }
  return {};
}

}  // namespace commlens::deepspeed
