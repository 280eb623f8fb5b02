// Settings of GPT-NeoX that follow from others or that not all of its versions have, what makes two of its
// runs differ, and what advice recommends.
#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens::neox {

namespace {

bool has_sequence_parallelism(const Job& job) { return behaviour(job).has_sequence_parallelism; }

bool names_default_version(const Job& job) {
  return job.framework_version.empty() || is_same_version(job.framework_version, k_default_version);
}

/// With the default version, which has none, the later one is taken.
void ask_for_sequence_parallelism(Job& job) {
  if (job.layout.tp > 1 && names_default_version(job)) {
    job.framework_version = k_sequence_parallel_version;
    job.warnings.push_back(fmt::format("--sp: GPT-NeoX {} has no sequence parallelism; using the rules of {}",
                                       k_default_version, k_sequence_parallel_version));
  }
}

void settle(Job& job) {
  deepspeed::options(job).release = behaviour(job).deepspeed;
  deepspeed::options(job).pipeline_engine = uses_pipeline_engine(job);
}

}  // namespace

bool uses_pipeline_engine(const Job& job) {
  return job.layout.pp > 1 || behaviour(job).always_runs_pipeline_engine;
}

void read_version_keys(MapReader& arguments, Job& job) {
  arguments.read("sequence_parallel", job.layout.sequence_parallel);
  if (!job.layout.sequence_parallel || behaviour(job).has_sequence_parallelism) {
    return;
  }
  if (!job.framework_version.empty()) {
    arguments.fail("sequence_parallel",
                   fmt::format("is not known to GPT-NeoX {}; set framework_version {}",
                               shown_text(job.framework_version), k_sequence_parallel_version));
    return;
  }
  job.framework_version = k_sequence_parallel_version;
  job.warnings.push_back(
      fmt::format("{}: sequence parallelism came after commit {}; the rules of {} are used",
                  arguments.where("sequence_parallel"), k_default_version, k_sequence_parallel_version));
}

Result<void> check_version(const Job& job) {
  if (job.train.zero_stage > 1 && uses_pipeline_engine(job)) {
    return failure(
        fmt::format("ZeRO-{} with DeepSpeed's pipeline engine is refused (runtime/pipe/engine.py:73); use "
                    "--zero 0 or 1{}",
                    job.train.zero_stage,
                    behaviour(job).always_runs_pipeline_engine
                        ? fmt::format(" (GPT-NeoX {} always uses that engine)", behaviour(job).version.name)
                        : ""));
  }
  if (job.layout.sequence_parallel && !behaviour(job).has_sequence_parallelism) {
    return not_covered(fmt::format("sequence parallelism came to GPT-NeoX with {0}; use --framework neox@{0}",
                                   k_sequence_parallel_version));
  }
  if (job.layout.sequence_parallel && job.layout.tp > 1 && (job.layout.pp > 1 || job.layout.dp > 1)) {
    return not_covered(
        fmt::format("GPT-NeoX {} puts the reduce_scatter of sequence parallelism on the world group "
                    "(megatron/mpu/mappings.py:124), which hangs with dp or pp > 1; use --dp 1 --pp 1",
                    behaviour(job).version.name));
  }
  return {};
}

std::vector<std::string> unverified_by_version(const Job& job) {
  if (behaviour(job).data_parallelism_is_recorded || job.layout.dp <= 1) {
    return {};
  }
  return {fmt::format("{} with data parallelism", behaviour(job).version.name)};
}

void adopt(Job& job) {
  pad_vocab_for_training(job.model);
  job.framework_version = k_default_version;
  deepspeed::options(job).weight_decay_groups = true;
  deepspeed::options(job).attention_mask = true;
}

SettingRules setting_rules() {
  return {.adopt = adopt,
          .settle = settle,
          .has_sequence_parallelism = has_sequence_parallelism,
          .ask_for_sequence_parallelism = ask_for_sequence_parallelism,
          .bucket = deepspeed::bucket,
          .set_bucket = deepspeed::set_bucket,
          .has_sharding_details = true,
          .reduces_every_micro_batch = [](const Job& job) { return job.train.zero_stage == 2; }};
}

std::int64_t layers_recomputed_at_once(const Job& job) { return options(job).checkpoint_num_layers; }

std::string setting_text(const Job& job, Setting setting) {
  const std::string_view place = rules_of(job).advice.place;
  switch (setting) {
    case Setting::sequence_parallel:
      return fmt::format("sequence_parallel: true {}", place);
    case Setting::recompute:
      return fmt::format("checkpoint_activations: {} {}", job.train.recompute == Recompute::full, place);
    case Setting::layout:
      return fmt::format("model_parallel_size: {}, pipe_parallel_size: {} {}", job.layout.tp, job.layout.pp,
                         place);
    default:
      return deepspeed::setting_text(job, setting);
  }
}

void add_variations(Variations& variations) {
  deepspeed::add_engine_variations(variations,
                                   [](Job& job) -> std::string& { return options(job).partition_method; });
  variations.toggle("partition_activations",
                    [](Job& job) -> bool& { return job.train.partition_activations; });
  variations.toggle("fp32_allreduce", [](Job& job) -> bool& { return options(job).fp32_allreduce; });
  variations.toggle("fp16_lm_cross_entropy",
                    [](Job& job) -> bool& { return options(job).fp16_lm_cross_entropy; });
}

}  // namespace commlens::neox
