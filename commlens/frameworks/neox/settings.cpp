// Settings of GPT-NeoX that follow from others, what makes two of its runs differ, and what advice says of
// them.
#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/options.hpp"

namespace commlens::neox {

const Behaviour& behaviour(const Job& job) { return behaviour_of(k_behaviours, job.framework_version); }

void adopt(Job& job) {
  pad_vocab_for_training(job.model);
  job.framework_version = k_default_version;
  deepspeed::options(job).weight_decay_groups = true;
  deepspeed::options(job).attention_mask = true;
}

void settle(Job& job) {
  deepspeed::options(job).pipeline_engine = job.layout.pp > 1 || behaviour(job).always_runs_pipeline_engine;
}

bool has_sequence_parallelism(const Job& job) { return behaviour(job).has_sequence_parallelism; }

void ask_for_sequence_parallelism(Job& job) {
  if (job.layout.tp > 1 && job.framework_version == k_default_version) {
    job.framework_version = k_sequence_parallel_version;
    job.warnings.push_back(fmt::format("--sp: GPT-NeoX {} has no sequence parallelism; using the rules of {}",
                                       k_default_version, k_sequence_parallel_version));
  }
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
