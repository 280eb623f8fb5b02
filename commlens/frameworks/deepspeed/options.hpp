#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens::deepspeed {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "deepspeed";

/// Sizes of a DeepSpeed JSON that are "auto": transformers and accelerate set them from the width of the
/// model (`settle_width_sizes`).
struct WidthSizes {
  bool reduce_bucket = false;          // hidden^2
  bool prefetch_bucket = false;        // 0.9 hidden^2
  bool persistence_threshold = false;  // 10 hidden
};

/// DeepSpeed's own settings, defaults of version 0.14.0 (runtime/config.py, runtime/zero/config.py). Sizes
/// count elements. The stage, clipping and micro-batches are in TrainConfig.
struct Options {
  std::int64_t reduce_bucket_size = 500'000'000;
  bool reduce_scatter = true;
  bool use_multi_rank_bucket_allreduce = true;
  bool overlap_comm = false;
  bool contiguous_gradients = true;
  bool round_robin_gradients = false;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group_size = 1'000'000'000;
  std::optional<DType> communication_dtype;      // of gradient reductions; the model's when absent
  std::optional<DType> grad_accumulation_dtype;  // data_types.grad_accum_dtype
  bool pipe_partitioned = true;                  // pipeline.pipe_partitioned
  bool grad_partitioned = true;                  // pipeline.grad_partitioned
  bool offload = false;                          // offload_optimizer or offload_param to cpu or nvme
  WidthSizes follows_width;

  // What the client program does around DeepSpeed (case file: options).
  bool weight_decay_groups = false;  // two parameter groups: matrices and embeddings; biases and norms
  bool pipeline_engine = false;
  bool attention_mask = false;                  // set_has_attention_mask(True)
  std::string partition_method = "parameters";  // uniform, parameters, type:REGEX
  bool zero_init = false;                       // model built under zero.Init
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

/// Whether this engine trains the job: its own jobs and those of clients that run on it, which carry its
/// options.
bool runs(const Job& job);

/// Gives the sizes that follow the width of the model (Options::follows_width) their values, in elements:
/// reduce_bucket_size hidden^2, prefetch_bucket_size int(0.9 hidden^2), the persistence threshold 10 hidden.
/// To be called again whenever the width changes. Source: transformers integrations/deepspeed.py
/// trainer_config_finalize; accelerate accelerator.py _prepare_deepspeed.
void settle_width_sizes(Job& job);

}  // namespace commlens::deepspeed
