#include "commlens/frameworks/torch/shard_groups.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {
namespace {

using Kind = Module::Kind;

/// Modules of a stage by what they are.
std::vector<std::size_t> modules_of(const std::vector<Module>& modules, std::initializer_list<Kind> kinds) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < modules.size(); ++at) {
    if (std::find(kinds.begin(), kinds.end(), modules[at].kind) != kinds.end()) {
      found.push_back(at);
    }
  }
  return found;
}

/// The lists of modules that a unit wraps, one for each call of fully_shard.
std::vector<std::vector<std::size_t>> wrapped_by(Unit unit, const std::vector<Module>& modules) {
  const std::vector<std::size_t> blocks = modules_of(modules, {Kind::block});
  std::vector<std::vector<std::size_t>> lists;
  switch (unit) {
    case Unit::embedding:
      return {modules_of(modules, {Kind::embedding})};
    case Unit::head_with_norm:
      return {modules_of(modules, {Kind::norm, Kind::output})};
    case Unit::embedding_with_head:
      return {modules_of(modules, {Kind::embedding, Kind::output})};
    case Unit::blocks:
    case Unit::block_pairs:
      for (std::size_t at = 0; at < blocks.size(); at += unit == Unit::blocks ? 1 : 2) {
        lists.emplace_back(blocks.begin() + static_cast<std::ptrdiff_t>(at),
                           blocks.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                at + (unit == Unit::blocks ? 1 : 2), blocks.size())));
      }
      return lists;
    case Unit::root:
      return {};
  }
  return {};
}

void add_parameters(ShardGroup& group, const Module& module) {
  for (const Parameter& parameter : module.parameters) {
    group.parameters.push_back(&parameter);
  }
}

/// FSDP1: with use_orig_params every parameter but the last is padded to 16 bytes
/// (distributed/fsdp/_flat_param.py, FlatParamHandle._init_flat_param_and_metadata).
std::int64_t flat_elements(const ShardGroup& group, const Fsdp& fsdp) {
  constexpr std::int64_t alignment = 16;
  std::int64_t all = 0;
  for (const Parameter* const parameter : group.parameters) {
    const std::int64_t unit = alignment / size_of(fsdp.param_dtype.value_or(parameter->dtype));
    const bool is_padded = fsdp.use_orig_params && parameter != group.parameters.back();
    all += is_padded ? ceil_div(parameter->count(), unit) * unit : parameter->count();
  }
  return all;
}

}  // namespace

bool ShardGroup::has_gradients() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter* parameter) { return parameter->has_gradient(); });
}

std::vector<ShardUnit> shard_units(const Job& job, const std::vector<Module>& modules) {
  std::vector<ShardUnit> units;
  std::vector<bool> is_taken(modules.size(), false);
  for (const Unit unit : options(job).fsdp.units) {
    for (const std::vector<std::size_t>& list : wrapped_by(unit, modules)) {
      ShardGroup group;
      for (const std::size_t module : list) {
        is_taken[module] = true;
        add_parameters(group, modules[module]);
      }
      if (!group.parameters.empty()) {
        units.push_back({.groups = {std::move(group)}, .modules = list});
      }
    }
  }
  std::sort(units.begin(), units.end(),
            [](const ShardUnit& a, const ShardUnit& b) { return a.modules < b.modules; });
  std::int64_t block = 0;
  for (ShardUnit& unit : units) {
    const bool is_block = modules[unit.modules.front()].kind == Kind::block;
    unit.block = is_block ? block++ : -1;
  }
  ShardGroup root;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (!is_taken[module]) {
      add_parameters(root, modules[module]);
    }
  }
  if (!root.parameters.empty()) {
    units.insert(units.begin(), {.groups = {std::move(root)}, .modules = {}, .is_root = true});
  }
  return units;
}

GroupSizes sizes_of(const ShardGroup& group, const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  const std::int64_t ranks = group.mesh.shard_ranks;
  GroupSizes sizes;
  const DType first = group.parameters.front()->dtype;
  const bool is_mixed =
      !fsdp.param_dtype && std::any_of(group.parameters.begin(), group.parameters.end(),
                                       [&](const Parameter* parameter) { return parameter->dtype != first; });
  sizes.gather_dtype = is_mixed ? DType::uint8 : fsdp.param_dtype.value_or(first);
  DType gradient_dtype = first;
  DType original_dtype = first;
  for (const Parameter* const parameter : group.parameters) {
    const std::int64_t shard = ceil_div(parameter->rows, ranks) * parameter->row;
    sizes.gathered_shard.value += is_mixed ? shard * size_of(parameter->dtype) : shard;
    const bool is_zero_filled = fsdp.reduce_scatter_unused_params && parameter->is_trainable;
    if (parameter->has_gradient() || is_zero_filled) {
      sizes.reduced.value += shard * ranks;
      sizes.unpadded.value += parameter->count();
      original_dtype = parameter->dtype;
      gradient_dtype = fsdp.param_dtype.value_or(parameter->dtype);
    }
  }
  sizes.reduce_dtype =
      fsdp.reduce_dtype.value_or(behaviour(job).reduces_in_original_dtype ? original_dtype : gradient_dtype);
  if (fsdp.version == 1) {
    const std::int64_t flat = flat_elements(group, fsdp);
    sizes.gathered_shard.value = ceil_div(flat, ranks);
    sizes.reduced.value = sizes.gathered_shard.value * ranks;
    // NO_SHARD: what is aligned is padded as if it were sharded.
    const std::int64_t all = ranks / job.layout.cp * group.mesh.replicate_ranks;
    sizes.unpadded.value = fsdp.use_orig_params ? ceil_div(flat, all) * all : flat;
    sizes.reduce_dtype = fsdp.reduce_dtype.value_or(fsdp.param_dtype.value_or(first));
  }
  return sizes;
}

}  // namespace commlens::pytorch
