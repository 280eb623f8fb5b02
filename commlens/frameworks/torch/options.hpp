#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/schedule_file.hpp"
#include "commlens/model/job.hpp"

namespace commlens::pytorch {

/// Arguments of DistributedDataParallel, and how it is used; the defaults are PyTorch's.
struct Ddp {
  bool is_used = false;
  std::optional<Bytes> bucket_cap;  // bucket_cap_mb; absent: a first bucket of 1 MiB, then 25 MiB
  std::vector<Bytes> bucket_caps;   // bucket_cap_mb_list
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool broadcast_buffers = true;
  bool init_sync = true;
  bool skip_all_reduce_unused_params = false;
  bool accumulation_sync = true;          // false: all micro-batches but the last under no_sync
  std::optional<DType> hook_dtype;        // of a communication hook that compresses gradients
  std::optional<DType> mixed_dtype;       // of _MixedPrecision: reduce_dtype, else param_dtype
  std::optional<DType> mixed_parameters;  // its param_dtype
  std::optional<DType> mixed_buffers;     // its buffer_dtype
  std::vector<std::int64_t> join_inputs;  // iterations of each rank inside join(); empty: no join
  friend bool operator==(const Ddp&, const Ddp&) = default;
};

/// How a group of parameters is sharded after the forward pass.
struct ReshardAfterForward {
  enum class Kind : std::uint8_t { automatic, yes, no, to_size };
  Kind kind = Kind::automatic;  // the argument is not given: all but the root
  std::int64_t size = 0;        // to_size: ranks of a shard that remains
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

/// What one or several calls of fully_shard wrap.
enum class Unit : std::uint8_t {
  embedding,            // the token embedding
  blocks,               // each block
  block_pairs,          // lists of two blocks, an odd last one alone
  head_with_norm,       // the list of final norm and output
  embedding_with_head,  // the list of token embedding and output
  root                  // the model: what is in no other
};

enum class FsdpStrategy : std::uint8_t { full_shard, grad_op, no_shard, hybrid, hybrid_grad_op };

/// fully_shard (version 2), replicate, or FullyShardedDataParallel (version 1).
struct Fsdp {
  bool is_used = false;
  int version = 2;
  bool is_replicate = false;
  std::vector<Unit> units = {Unit::blocks, Unit::root};
  ReshardAfterForward reshard_after_forward;
  bool reshard_after_backward = true;  // false: after the last micro-batch alone
  std::optional<DType> param_dtype;
  std::optional<DType> reduce_dtype;
  std::optional<double> divide_factor;
  std::int64_t forward_prefetch = 0;  // blocks that each block prefetches; 0: none by name
  std::int64_t backward_prefetch = 0;
  bool is_offloaded = false;  // parameters, gradients and optimizer states are in host memory
  bool reduce_scatter_unused_params = false;
  bool sync_each_micro_batch = true;
  bool all_reduce_each_micro_batch = true;
  // Version 1.
  FsdpStrategy strategy = FsdpStrategy::full_shard;
  bool use_orig_params = false;
  bool sync_module_states = false;
  bool prefetches_in_backward = true;  // backward_prefetch is BACKWARD_PRE
};

/// parallelize_module of DTensor.
struct TensorParallel {
  bool loss_parallel = false;
  bool init_from_rank0 = true;  // false: built on the meta device, which sends nothing
};

/// How ranks of context parallelism get each other's keys and values: round a ring, by two means, or all at
/// once (of FlexAttention).
enum class RingMethod : std::uint8_t { all_gather, all_to_all, kv_all_gather };

enum class PipelineSchedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved_1f1b,
  looped_bfs,
  interleaved_zero_bubble,
  zbv_zero_bubble,
  dual_pipe_v,
  from_file
};

struct Pipeline {
  std::shared_ptr<const ScheduleFile> file = nullptr;  // csv, of from_file
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool has_static_shapes = false;  // input_args and output_args are given
};

enum class Optimizer : std::uint8_t { adamw, adamw_foreach, sgd };

struct Trainer {
  bool clip = false;
  bool norm_full_tensor = false;  // full_tensor() of what clip_grad_norm_ returns
  Optimizer optimizer = Optimizer::adamw;
};

/// Settings of jobs of PyTorch's own parallel modules (docs/frameworks/torch.md). Degrees are in the layout:
/// dp is data_replicate x data_shard.
struct Options {
  /// Of PyTorch, in a job of a framework that is built on it; empty: the newest.
  std::string release;
  std::int64_t data_shard = 0;  // consecutive data ranks that share a shard; 0: all
  Ddp ddp;
  Fsdp fsdp;
  TensorParallel tensor;
  RingMethod ring = RingMethod::all_gather;
  bool balances_context = true;  // load_balance
  Pipeline pipeline;
  Trainer trainer;
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

/// Of what passes between modules, and what autograd saves.
inline DType activation_dtype(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  return fsdp.is_used ? fsdp.param_dtype.value_or(job.train.dtype) : job.train.dtype;
}

/// Data ranks that share a shard, once the layout is known.
inline std::int64_t data_shard(const Job& job) {
  return options(job).data_shard == 0 ? job.layout.dp : options(job).data_shard;
}

}  // namespace commlens::pytorch
