#include "commlens/frameworks/torch/memory_units.hpp"

#include <algorithm>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"

namespace commlens::pytorch {
namespace {

using Reshard = ReshardAfterForward::Kind;

/// All parameters of a job without FSDP, as one group.
ShardUnit whole(const std::vector<Module>& modules) {
  ShardGroup group;
  for (const Module& module : modules) {
    for (const Parameter& parameter : module.parameters) {
      group.parameters.push_back(&parameter);
    }
  }
  return {.groups = {std::move(group)}, .modules = {}, .is_root = true};
}

std::int64_t states_of_optimizer(Optimizer optimizer) { return optimizer == Optimizer::sgd ? 0 : 2; }

}  // namespace

Units::Units(const Job& job, std::int64_t rank) : job_(job), options_(options(job)) {
  const Fsdp& fsdp = options_.fsdp;
  set_ranks();
  const PipelineShape shape = pipeline_shape(job);
  const std::int64_t stages = job.layout.pp == 1 ? 1 : shape.stages();
  const std::vector<std::int64_t> own =
      job.layout.pp == 1 ? std::vector<std::int64_t>{0} : shape.stages_of(rank);
  for (const std::int64_t stage : own) {
    has_head_ = has_head_ || stage + 1 == stages;
    blocks_ = std::max(blocks_, stage_layers(job.model.layers, stage, stages).count);
    const std::vector<Module> modules = stage_modules(job, stage, stages);
    if (!fsdp.is_used) {
      add(whole(modules), modules);
      continue;
    }
    for (const ShardUnit& unit : shard_units(job, modules)) {
      add(unit, modules);
    }
  }
  head_ = head_ == 0 ? groups_.size() : head_;
}

Units::Units(const Job& job, const std::vector<Module>& modules, const std::vector<ShardUnit>& units)
    : job_(job), options_(options(job)) {
  set_ranks();
  has_head_ = true;
  blocks_ = job.model.layers;
  if (!options_.fsdp.is_used) {
    add(whole(modules), modules);
  }
  for (const ShardUnit& unit : options_.fsdp.is_used ? units : std::vector<ShardUnit>()) {
    add(unit, modules);
  }
  head_ = head_ == 0 ? groups_.size() : head_;
}

void Units::set_ranks() {
  const Fsdp& fsdp = options_.fsdp;
  const bool is_whole = fsdp.is_replicate || fsdp.strategy == FsdpStrategy::no_shard;
  shard_ranks_ = fsdp.is_used && !is_whole ? data_shard(job_) * job_.layout.cp : 1;
  is_sharded_ = shard_ranks_ > 1;
}

bool Units::is_open(const ShardUnit& unit) const {
  const Fsdp& fsdp = options_.fsdp;
  if (job_.layout.pp > 1) {
    return true;  // nothing is resharded before the last backward pass
  }
  if (fsdp.version == 1) {
    return unit.is_root || fsdp.strategy == FsdpStrategy::grad_op ||
           fsdp.strategy == FsdpStrategy::hybrid_grad_op;
  }
  if (unit.reshards_after_forward) {
    return !*unit.reshards_after_forward;
  }
  const Reshard kind = fsdp.reshard_after_forward.kind;
  return kind == Reshard::no || (unit.is_root && kind == Reshard::automatic);
}

bool Units::keeps_sums() const {
  return job_.train.micro_batches > 1 && (job_.layout.pp > 1 || !options_.fsdp.sync_each_micro_batch);
}

void Units::add(const ShardUnit& unit, const std::vector<Module>& modules) {
  const Fsdp& fsdp = options_.fsdp;
  Group bytes{.is_root = unit.is_root, .is_open = is_open(unit)};
  for (const Parameter* const parameter : unit.groups.front().parameters) {
    const std::int64_t own = size_of(parameter->dtype);
    const std::int64_t cast =
        size_of(fsdp.is_used ? fsdp.param_dtype.value_or(parameter->dtype) : parameter->dtype);
    const std::int64_t padded_rows = ceil_div(parameter->rows, shard_ranks_);
    const std::int64_t shard =
        fsdp.version == 1 ? ceil_div(parameter->count(), shard_ranks_) : padded_rows * parameter->row;
    bytes.parameters += shard * own;
    bytes.gathered += is_sharded_ || cast != own ? shard * shard_ranks_ * cast : 0;
    if (!parameter->is_trainable) {
      continue;
    }
    const std::int64_t reduced = size_of(fsdp.reduce_dtype.value_or(parameter->dtype));
    bytes.optimizer += shard * own * states_of_optimizer(options_.trainer.optimizer);
    if (!parameter->has_gradient()) {
      continue;
    }
    bytes.sharded_gradients += shard * own;
    if (fsdp.is_used) {
      bytes.gradients += parameter->count() * cast;
      bytes.summed += keeps_sums() ? parameter->count() * reduced : 0;
      bytes.message += shard * shard_ranks_ * reduced;
    }
  }
  if (fsdp.reshard_after_forward.kind == Reshard::to_size) {
    bytes.kept_part = bytes.gathered / fsdp.reshard_after_forward.size;
  }
  groups_.push_back(bytes);
  const auto holds = [&](Module::Kind kind) {
    return std::any_of(unit.modules.begin(), unit.modules.end(),
                       [&](std::size_t module) { return modules[module].kind == kind; });
  };
  last_block_ = holds(Module::Kind::block) ? groups_.size() - 1 : last_block_;
  head_ = holds(Module::Kind::output) ? groups_.size() - 1 : head_;
}

MemoryEstimate Units::states() const {
  MemoryEstimate estimate;
  for (const Group& group : groups_) {
    estimate.gradients += Bytes{group.summed};
    if (options_.fsdp.is_offloaded) {  // shards of all three are in host memory
      continue;
    }
    estimate.parameters += Bytes{group.parameters};
    estimate.gradients += Bytes{group.sharded_gradients};
    estimate.optimizer += Bytes{group.optimizer};
  }
  return estimate;
}

Bytes Units::in_use(std::size_t at) const {
  if (!options_.fsdp.is_used) {
    // DDP's buckets are copies of the gradients.
    const bool has_buckets = options_.ddp.is_used || job_.layout.dp > 1;
    return has_buckets ? states().gradients : Bytes{};
  }
  // Prefetched: by name, or the group before. One stays in flight while the one before it is used.
  const auto ahead = static_cast<std::size_t>(std::max<std::int64_t>(1, options_.fsdp.backward_prefetch));
  Bytes sum;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Group& bytes = groups_[group];
    const bool is_gathered =
        bytes.is_open || group == at || (group < at && at - group <= ahead && !bytes.is_root);
    sum += Bytes{is_gathered ? bytes.gathered : bytes.kept_part};
    const bool has_gradients = group == at || bytes.is_root;
    sum += Bytes{has_gradients && bytes.summed == 0 ? bytes.gradients : 0};
  }
  // The reduction of the group that came before in the backward pass is on its way.
  const bool has_more = at + 1 < groups_.size() && !keeps_sums();
  return sum + Bytes{has_more ? groups_[at + 1].message : 0};
}

Bytes Units::at_end() const {
  if (groups_.empty() || !options_.fsdp.is_used) {
    return in_use(0);
  }
  std::int64_t largest = 0;
  for (const Group& group : groups_) {
    largest = std::max(largest, group.message);
  }
  const Group& root = groups_.front();
  const std::int64_t gradients = root.summed == 0 ? root.gradients : 0;
  const bool is_pipeline = job_.layout.pp > 1;
  Bytes open;
  for (const Group& group : groups_) {
    open += Bytes{is_pipeline || (group.is_root && group.is_open) ? group.gathered : 0};
  }
  return open + Bytes{gradients + largest};
}

}  // namespace commlens::pytorch
