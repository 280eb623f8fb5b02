#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// The framework as the command line and files name it: the Trainer of transformers on accelerate, and models
/// that are split while they are loaded (tp_plan).
inline constexpr std::string_view k_name = "hf";

/// per_device_train_batch_size of TrainingArguments that do not name it.
inline constexpr std::int64_t k_default_batch = 8;

/// What FullyShardedDataParallelPlugin wraps in units of their own (accelerate utils/dataclasses.py).
enum class WrapPolicy : std::uint8_t { transformer, none };

/// reshard_after_forward: of FSDP2 true is full_shard, false is grad_op; of FSDP1 the strategy's name.
enum class Sharding : std::uint8_t { full_shard, grad_op, no_shard, hybrid, hybrid_grad_op };

/// `fsdp` and `fsdp_config` of TrainingArguments, or `fsdp_config` of accelerate's file.
struct Fsdp {
  bool is_used = false;
  int version = 2;
  Sharding sharding = Sharding::full_shard;
  WrapPolicy wrap = WrapPolicy::transformer;
  std::vector<std::string> wrapped = {};  // transformer_layer_cls_to_wrap; empty: the model's own layers
  bool loads_on_rank0 = false;            // cpu_ram_efficient_loading
  bool is_offloaded = false;              // cpu_offload, fsdp_offload_params
  bool checkpoints = false;               // activation_checkpointing
  bool saves_whole = true;                // state_dict_type is FULL_STATE_DICT
  // Version 1.
  bool use_orig_params = true;
  bool sync_module_states = true;
  bool prefetches_in_backward = false;  // backward_prefetch is not NO_PREFETCH
  friend bool operator==(const Fsdp&, const Fsdp&) = default;
};

/// `ddp_…` of TrainingArguments.
struct Ddp {
  std::optional<bool> find_unused_parameters;  // absent: true, unless activations are checkpointed
  std::optional<Bytes> bucket_cap;
  bool broadcast_buffers = true;
  bool static_graph = false;
  friend bool operator==(const Ddp&, const Ddp&) = default;
};

enum class Interval : std::uint8_t { never, steps, epoch };

/// When the loss is logged: `logging_strategy`, `logging_steps`, `logging_first_step`.
struct Logging {
  Interval strategy = Interval::steps;
  double steps = 500;  // below 1: a part of max_steps
  bool first_step = false;
  friend bool operator==(const Logging&, const Logging&) = default;
};

/// When a checkpoint is written and what: `save_strategy`, `save_steps`, `save_only_model`.
struct Saving {
  Interval strategy = Interval::steps;
  double steps = 500;
  bool only_model = false;
  friend bool operator==(const Saving&, const Saving&) = default;
};

/// `parallelism_config` as it is given, of which accelerate demands that it names all ranks.
struct Parallelism {
  std::int64_t replicate = 1;  // dp_replicate_size
  std::int64_t shard = 1;      // dp_shard_size
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

/// How the ranks run the model.
enum class Loop : std::uint8_t {
  trainer,  // Trainer.train()
  plain     // forward, backward and the optimizer, nothing else
};

/// Settings of jobs of transformers (docs/frameworks/huggingface.md) that no other framework has; the
/// defaults are those of TrainingArguments. Batch sizes, recomputation, the norm to clip at and the degrees
/// are in the job: tensor ranks split the model by its tp_plan, the rest of dp_replicate_size data ranks
/// shards.
struct Options {
  std::string model_type;                // of config.json; empty: the model came from elsewhere
  std::optional<Loop> loop;              // absent: plain with tensor ranks, else the Trainer
  std::optional<DType> mixed_precision;  // bf16, fp16
  Fsdp fsdp;
  Ddp ddp;
  Logging logging;
  Saving saving;
  std::int64_t replicate = 1;  // dp_replicate_size
  std::optional<Parallelism> parallelism;
  std::int64_t max_steps = -1;    // -1: as many as the epochs have
  bool averages_tokens = true;    // average_tokens_across_devices
  bool counts_input = false;      // include_num_input_tokens_seen
  bool syncs_each_batch = false;  // gradient_accumulation_kwargs: {sync_each_batch: true}
  std::string torch_version;      // of the recording; empty: the one the release was recorded with
  std::string accelerate_version;
  // What files say, for the defaults of the Trainer that other sources of a job do not have.
  bool states_batch = false;          // TrainingArguments have a batch, if by default
  bool is_launched = false;           // by accelerate's file
  bool leaves_batch = false;          // micro-batches are open until the flags are known
  std::int64_t longest_sequence = 0;  // max_position_embeddings of a config.json that decides the sequence
  friend bool operator==(const Options&, const Options&) = default;
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::huggingface
