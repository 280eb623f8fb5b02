#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/base/result.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/registry.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// Trainer.Config of torchtitan, as far as it can change messages: its values, before a layout decides what
/// they mean. The defaults are those of the dataclasses (torchtitan/config/configs.py, 0.3.0).
struct TrainerConfig {
  std::string module;
  std::string config;
  // training
  std::int64_t local_batch = 8;
  std::int64_t global_batch = 0;  // 0: local_batch of every data rank
  std::int64_t sequence = 2048;
  std::optional<std::int64_t> steps = {};
  bool has_sequence = false;  // seq_len is given
  double max_norm = 1.0;
  bool is_offloaded = false;
  bool has_cuda_graphs = true;
  DType dtype = DType::fp32;
  DType param_dtype = DType::bf16;
  // parallelism
  std::int64_t replicate = 1;
  std::int64_t shard = 0;  // 0: the ranks that remain
  Reshard reshard = Reshard::by_default;
  std::int64_t tp = 1;
  bool splits_sequence = true;
  std::int64_t pp = 1;
  pytorch::PipelineSchedule schedule = pytorch::PipelineSchedule::one_f_one_b;
  std::int64_t pipeline_micro_batch = 1;
  std::int64_t first_stage_less_layers = 1;
  std::int64_t last_stage_less_layers = 1;
  std::optional<std::int64_t> layers_per_stage;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  // the other sections
  Recompute recompute = Recompute::selective;
  std::int64_t loss_chunks = 8;
  std::int64_t log_frequency = 10;
  Checkpoints checkpoints;
  bool compiles = false;
  bool compiles_model = true;  // compile.components has "model"
  std::optional<std::int64_t> seed;
  bool forces_balance = false;
};

/// What a function of config_registry.py returns.
TrainerConfig config_of(const Recipe& recipe);

/// Reads the sections (`training`, `parallelism`, `activation_checkpoint` and so on) of `map`, a map of maps,
/// over `config`. Fails, by name, for values that would change messages in a way that has no rules; keys of
/// `map` that are no sections are left to `reader`, which reads the map too.
Result<void> read_sections(MapReader& reader, TrainerConfig& config, ReaderNotes notes);

/// The job of this configuration, without its model. `where` says where the configuration is, for errors and
/// notes. Fails for batches and pipeline stages that torchtitan refuses.
Result<Job> job_of(const TrainerConfig& config, const ModelConfig& model, std::string_view where);

}  // namespace commlens::torchtitan
