#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "commlens/frameworks/torchtitan/trainer_config.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// What decides how many stages a model is cut into.
struct StageLayers {
  std::int64_t layers = 0;
  std::int64_t first_less = 1;  // layers that the embedding counts for
  std::int64_t last_less = 1;   // layers that norm and output count for
  std::int64_t per_stage = 1;   // pipeline_parallel_layers_per_stage
};
/// Stages of each of `ranks` pipeline ranks; std::nullopt where they are not as many for all.
/// Source: torchtitan 0.3.0 distributed/pipeline_parallel.py:199-264.
std::optional<std::int64_t> stages_per_rank(const StageLayers& stages, std::int64_t ranks);

/// Gives a job whose model is known the settings of the configuration.
void apply(const TrainerConfig& config, Job& job);

/// Makes a job of another framework one of torchtitan. A built-in model, or one of a config.json, which says
/// nothing of a training, gets the settings of the function of config_registry.py that trains a model of its
/// sizes, or the defaults; others keep layout, batch and recomputation.
void adopt(Job& job);
/// What follows from flags once the degrees are known: schedule and stages of a rank, how the batch is cut
/// into micro-batches, sequence parallelism.
void settle(Job& job);
/// parallelism.enable_sequence_parallel.
void set_sequence_parallelism(Job& job, bool is_on);
/// "FSDP2 over 64 ranks, 2 replicas", of a job whose layout is known.
std::string sharding_text(const Job& job);

}  // namespace commlens::torchtitan
