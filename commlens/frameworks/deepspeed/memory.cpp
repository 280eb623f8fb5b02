// What DeepSpeed's ranks hold.
#include "commlens/frameworks/memory.hpp"

#include <algorithm>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/model_tree.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"

namespace commlens::deepspeed {
namespace {

/// Elements of the largest module whose parameters stage 3 gathers together; 0 without such modules.
std::int64_t largest_leaf(const Job& job) {
  const bool has_leaves = options(job).granularity > 0 || !(options(job).leaf_modules == LeafModules{});
  if (job.train.zero_stage != 3 || !has_leaves || options(job).pipeline_engine) {
    return 0;
  }
  const ModelTree tree = model_tree(job);
  std::int64_t largest = 0;
  for (const std::size_t leaf : leaf_modules(tree, job)) {
    std::int64_t elements = 0;
    for (const std::size_t row : tree.parameters_below(leaf)) {
      elements += tree.parameters[row].count;
    }
    largest = std::max(largest, elements);
  }
  return largest;
}

/// DeepSpeed keeps every parameter that is used again within max_reuse_distance elements, at the turn from
/// forward to backward half of them, fetches a bucket ahead, and never holds more than all of them. Source:
/// deepspeed 0.14.0 runtime/zero/partitioned_param_coordinator.py.
std::int64_t gathered_around(const Job& job, const HeldStage& stage, std::int64_t module) {
  const std::int64_t all = stage.all.dense + stage.all.expert;
  const std::int64_t reused = std::min(options(job).max_reuse_distance / 2, all);
  const std::int64_t fetched = std::min(options(job).prefetch_bucket_size, all);
  return std::min(all, reused + std::max(module, largest_leaf(job)) + fetched);
}

/// Elements of a rank's parameters, and of those that are trained.
struct HeldParameters {
  Held all;
  Held trained;
};

HeldParameters held_parameters(const Job& job) {
  HeldParameters held;
  for (const LocalParameter& parameter : model_tree(job).parameters) {
    (parameter.is_expert ? held.all.expert : held.all.dense) += parameter.count;
    if (parameter.is_trainable) {
      (parameter.is_expert ? held.trained.expert : held.trained.dense) += parameter.count;
    }
  }
  return held;
}

/// `bytes_each` of each parameter, shared over the ranks that share states.
Bytes shared_states(const Held& held, std::int64_t bytes_each, const Job& job, bool is_shared) {
  const std::int64_t ranks = is_shared ? shard_ranks(job) : 1;
  const std::int64_t expert_ranks = is_shared ? job.layout.dp / job.layout.ep : 1;
  return Bytes{ceil_div(held.dense * bytes_each, ranks) + ceil_div(held.expert * bytes_each, expert_ranks)};
}

}  // namespace

/// Without a pipeline the states are those of the model's own parameters: frozen ones have no gradients and
/// no moments, experts and linears of AutoTP are this rank's, and what is offloaded is in the host's memory:
/// the optimizer's states with, from stage 2 on, the gradients they are made of, and the shards of stage 3.
MemoryEstimate memory_of_stage(const Job& job, std::int64_t index) {
  MemoryEstimate estimate = common_memory_of_stage(job, index);
  if (options(job).pipeline_engine) {
    return estimate;
  }
  const Options& own = options(job);
  const int zero = job.train.zero_stage;
  const bool is_mixed = job.train.dtype != DType::fp32;
  const bool shares_states = optimizer_path(job) != OptimizerPath::stage0;
  const HeldParameters held = held_parameters(job);
  const std::int64_t element = size_of(job.train.dtype);
  const bool keeps_gradients = !own.offloads_optimizer || zero < 2;
  estimate.parameters =
      own.offloads_parameters && zero == 3 ? Bytes{} : shared_states(held.all, element, job, zero == 3);
  estimate.gradients = keeps_gradients ? shared_states(held.trained, element, job, zero >= 2) : Bytes{};
  estimate.optimizer =
      own.offloads_optimizer ? Bytes{} : shared_states(held.trained, is_mixed ? 12 : 8, job, shares_states);
  return estimate;
}

/// reduce_bucket_size elements, twice with overlap_comm in stages 1 and 2. Source: deepspeed 0.14.0
/// runtime/zero/stage_1_and_2.py backward, runtime/zero/stage3.py.
Bytes memory_buffers(const Job& job, const HeldStage& stage, std::int64_t module) {
  const int zero = job.train.zero_stage;
  Bytes buffers;
  if (zero > 0 && (zero < 3 ? copies_gradients(job) : options(job).contiguous_gradients)) {
    const bool is_double = zero < 3 && options(job).overlap_comm;
    buffers = Elements{options(job).reduce_bucket_size} * communication_dtype(job) * (is_double ? 2 : 1);
  }
  if (zero == 3) {
    const std::int64_t gathered =
        std::max(gathered_around(job, stage, module), kept_gathered(job).elements.value);
    buffers += Elements{gathered} * job.train.dtype;
  }
  return buffers;
}

std::int64_t most_kept(const Job& job) { return options(job).model_persistence_threshold; }

}  // namespace commlens::deepspeed
