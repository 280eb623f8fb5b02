#include "commlens/frameworks/torch/memory_units.hpp"

#include <algorithm>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"

namespace commlens::pytorch {
namespace {

using Reshard = ReshardAfterForward::Kind;

std::int64_t states_of_optimizer(Optimizer optimizer) { return optimizer == Optimizer::sgd ? 0 : 2; }

bool is_of(const Parameter& parameter, const Module& module) {
  return std::any_of(module.parameters.begin(), module.parameters.end(),
                     [&](const Parameter& one) { return &one == &parameter; });
}

/// Stages of a case file's tree.
std::vector<HeldUnits> held_units(const Job& job, std::int64_t rank) {
  const Fsdp& fsdp = options(job).fsdp;
  const bool is_whole = fsdp.is_replicate || fsdp.strategy == FsdpStrategy::no_shard;
  const std::int64_t shard_ranks = fsdp.is_used && !is_whole ? data_shard(job) * job.layout.cp : 1;
  const PipelineShape shape = pipeline_shape(job);
  const std::int64_t stages = job.layout.pp == 1 ? 1 : shape.stages();
  const std::vector<std::int64_t> own =
      job.layout.pp == 1 ? std::vector<std::int64_t>{0} : shape.stages_of(rank);
  std::vector<HeldUnits> all;
  for (const std::int64_t stage : own) {
    HeldUnits held{.modules = stage_modules(job, stage, stages), .has_head = stage + 1 == stages};
    held.units = fsdp.is_used ? shard_units(job, held.modules) : std::vector{whole_unit(held.modules)};
    for (ShardUnit& unit : held.units) {
      unit.groups.front().mesh.shard_ranks = shard_ranks;
    }
    all.push_back(std::move(held));
  }
  return all;
}

}  // namespace

ShardUnit whole_unit(const std::vector<Module>& modules) {
  ShardGroup group;
  for (const Module& module : modules) {
    for (const Parameter& parameter : module.parameters) {
      group.parameters.push_back(&parameter);
    }
  }
  return {.groups = {std::move(group)}, .modules = {}, .is_root = true};
}

Units::Units(const Job& job, std::int64_t rank) : Units(job, held_units(job, rank)) {}

Units::Units(const Job& job, const std::vector<HeldUnits>& stages) : job_(job), options_(options(job)) {
  for (const HeldUnits& stage : stages) {
    has_head_ = has_head_ || stage.has_head;
    const auto blocks = std::count_if(stage.modules.begin(), stage.modules.end(), [](const Module& module) {
      return module.kind == Module::Kind::block;
    });
    blocks_ = std::max<std::int64_t>(blocks_, blocks);
    for (const ShardUnit& unit : stage.units) {
      add(unit, stage);
    }
  }
  head_ = head_ == 0 ? groups_.size() : head_;
}

bool Units::is_open(const ShardUnit& unit) const {
  const Fsdp& fsdp = options_.fsdp;
  if (unit.reshards_after_forward) {
    return !*unit.reshards_after_forward;
  }
  if (job_.layout.pp > 1) {
    return true;  // nothing is resharded before the last backward pass
  }
  if (fsdp.version == 1) {
    return unit.is_root || fsdp.strategy == FsdpStrategy::grad_op ||
           fsdp.strategy == FsdpStrategy::hybrid_grad_op;
  }
  const Reshard kind = fsdp.reshard_after_forward.kind;
  return kind == Reshard::no || (unit.is_root && kind == Reshard::automatic);
}

bool Units::keeps_sums() const {
  return job_.train.micro_batches > 1 && (job_.layout.pp > 1 || !options_.fsdp.sync_each_micro_batch);
}

void Units::add(Group& bytes, const Parameter& parameter, std::int64_t shard_ranks) const {
  const Fsdp& fsdp = options_.fsdp;
  const std::int64_t own = size_of(parameter.dtype);
  const std::int64_t cast =
      size_of(fsdp.is_used ? fsdp.param_dtype.value_or(parameter.dtype) : parameter.dtype);
  const std::int64_t padded_rows = ceil_div(parameter.rows, shard_ranks);
  const std::int64_t shard =
      fsdp.version == 1 ? ceil_div(parameter.count(), shard_ranks) : padded_rows * parameter.row;
  const std::int64_t states = parameter.is_alias ? 0 : shard;
  bytes.parameters += states * own;
  bytes.gathered += shard_ranks > 1 || cast != own ? shard * shard_ranks * cast : 0;
  if (!parameter.is_trainable) {
    return;
  }
  const std::int64_t reduced = size_of(fsdp.reduce_dtype.value_or(parameter.dtype));
  bytes.optimizer += states * own * states_of_optimizer(options_.trainer.optimizer);
  if (!parameter.has_gradient()) {
    return;
  }
  bytes.sharded_gradients += states * own;
  if (fsdp.is_used) {
    bytes.gradients += parameter.count() * cast;
    bytes.summed += keeps_sums() ? parameter.count() * reduced : 0;
    bytes.message += shard * shard_ranks * reduced;
  }
}

void Units::add(const ShardUnit& unit, const HeldUnits& stage) {
  const Fsdp& fsdp = options_.fsdp;
  const auto holds = [&](Module::Kind kind) {
    return std::any_of(unit.modules.begin(), unit.modules.end(),
                       [&](std::size_t module) { return stage.modules[module].kind == kind; });
  };
  const bool has_chunks = stage.loss_chunks > 0 && holds(Module::Kind::output);
  Group bytes{.is_root = unit.is_root, .is_open = is_open(unit)};
  Group head;
  for (const ShardGroup& group : unit.groups) {
    for (const Parameter* const parameter : group.parameters) {
      const bool is_chunked = has_chunks && is_of(*parameter, stage.modules.back());
      add(is_chunked ? head : bytes, *parameter, group.mesh.shard_ranks);
      const std::int64_t reduced = size_of(fsdp.reduce_dtype.value_or(parameter->dtype));
      chunks_.sums += is_chunked && stage.loss_chunks > 1 ? parameter->count() * reduced : 0;
    }
  }
  if (has_chunks) {
    bytes.parameters += head.parameters;
    bytes.sharded_gradients += head.sharded_gradients;
    bytes.optimizer += head.optimizer;
    bytes.gathered += head.gathered;
    bytes.is_open = bytes.is_open && holds(Module::Kind::embedding);  // resharded after the chunks
    chunks_.gradients = head.gradients;
    chunks_.message = head.message;
  }
  if (fsdp.reshard_after_forward.kind == Reshard::to_size) {
    bytes.kept_part = bytes.gathered / fsdp.reshard_after_forward.size;
  }
  if (holds(Module::Kind::output)) {
    head_ = head_group_ = groups_.size();
  }
  last_block_ = holds(Module::Kind::block) ? groups_.size() : last_block_;
  groups_.push_back(bytes);
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

Bytes Units::around_chunks() const {
  std::int64_t sum = chunks_.sums;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Group& bytes = groups_[group];
    sum += bytes.is_open || group == head_group_ ? bytes.gathered : bytes.kept_part;
  }
  return Bytes{sum};
}

Bytes Units::in_chunks() const { return around_chunks() + Bytes{chunks_.gradients}; }

Bytes Units::after_chunks() const { return around_chunks() + Bytes{chunks_.message}; }

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
