#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// parallelism.fsdp_reshard_after_forward. by_default: unless the job has a pipeline.
enum class Reshard : std::uint8_t { by_default, always, never };

/// How tokens reach their experts. All but `all_to_all` are kernels of their own, without a message of the
/// process group.
enum class Dispatcher : std::uint8_t { all_to_all, deepep, hybridep, minimal_async_ep };

/// Checkpoints, as far as they send messages.
struct Checkpoints {
  bool is_used = false;         // checkpoint.enable
  std::int64_t interval = 500;  // steps between them
  bool is_async = false;        // async_mode is not disabled
  bool saves_first_step = false;
  friend bool operator==(const Checkpoints&, const Checkpoints&) = default;
};

constexpr std::string_view k_name = "torchtitan";

/// Settings of a torchtitan job (docs/frameworks/torchtitan.md) that no other framework has; the defaults are
/// those of its dataclasses. Degrees, recomputation, sequence parallelism (parallelism.
/// enable_sequence_parallel with tensor ranks) and the norm to clip at are in the job. `micro_batch` is
/// training.local_batch_size or, with a pipeline, pipeline_parallel_microbatch_size, `micro_batches` what one
/// optimizer step has of them.
struct Options {
  std::string module;                   // --module, "llama3"
  std::string config;                   // --config, "llama3_8b"
  std::string flavour = {};             // of the model, "8B"
  std::int64_t replicate = 1;           // data_parallel_replicate_degree; the rest of dp shards
  std::int64_t accumulation_steps = 1;  // of a pipeline: how often it runs in one optimizer step
  Reshard reshard_after_forward = Reshard::by_default;
  DType param_dtype = DType::bf16;    // training.mixed_precision_param
  bool is_offloaded = false;          // training.enable_cpu_offload
  std::int64_t loss_chunks = 8;       // of ChunkedLossWrapper; 0: the loss of all tokens at once
  std::optional<std::int64_t> steps;  // training.steps: the last of them saves; none: the job's iterations
  std::int64_t log_frequency = 10;    // metrics.log_freq
  std::optional<std::int64_t> seed;   // debug.seed; none: rank 0 tells all
  bool fuses_qkv = true;              // one weight for queries, keys and values
  bool balances_experts = false;      // load_balance_coeff of the model is more than 0
  bool forces_balance = false;        // debug.moe_force_load_balance: sizes do not depend on data
  Dispatcher dispatcher = Dispatcher::all_to_all;
  pytorch::PipelineSchedule schedule = pytorch::PipelineSchedule::one_f_one_b;
  std::int64_t first_stage_less_layers = 1;  // layers that the embedding counts for
  std::int64_t last_stage_less_layers = 1;   // layers that norm and output count for
  std::optional<std::int64_t> layers_per_stage;
  Checkpoints checkpoints;
  std::string torch_version;  // of the recording, or empty: what the release goes with
  // What the configuration says and a layout decides the use of (settings.hpp).
  std::int64_t local_batch = 8;           // training.local_batch_size
  std::int64_t pipeline_micro_batch = 1;  // parallelism.pipeline_parallel_microbatch_size
  bool splits_sequence = true;            // parallelism.enable_sequence_parallel
  std::int64_t settled_tp = 1;            // degrees that sequence_parallel of the layout, and the batch,
  std::int64_t settled_pp = 1;            // were last derived for
  friend bool operator==(const Options&, const Options&) = default;
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::torchtitan
