// Which parameters a call of fully_shard manages.
#include <algorithm>

#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {
namespace {

/// Modules of a stage by what they are.
std::vector<std::size_t> modules_of(const std::vector<Module>& modules,
                                    std::initializer_list<Module::Kind> kinds) {
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
  const std::vector<std::size_t> blocks = modules_of(modules, {Module::Kind::block});
  std::vector<std::vector<std::size_t>> lists;
  switch (unit) {
    case Unit::embedding:
      return {modules_of(modules, {Module::Kind::embedding})};
    case Unit::head_with_norm:
      return {modules_of(modules, {Module::Kind::norm, Module::Kind::output})};
    case Unit::embedding_with_head:
      return {modules_of(modules, {Module::Kind::embedding, Module::Kind::output})};
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

}  // namespace

bool ShardGroup::has_gradients() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter* parameter) { return parameter->has_gradient(); });
}

std::vector<ShardGroup> shard_groups(const Job& job, const std::vector<Module>& modules) {
  std::vector<ShardGroup> groups;
  std::vector<bool> is_taken(modules.size(), false);
  for (const Unit unit : options(job).fsdp.units) {
    for (const std::vector<std::size_t>& list : wrapped_by(unit, modules)) {
      ShardGroup group;
      group.modules = list;
      for (const std::size_t module : list) {
        is_taken[module] = true;
        add_parameters(group, modules[module]);
      }
      if (!group.parameters.empty()) {
        groups.push_back(std::move(group));
      }
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const ShardGroup& a, const ShardGroup& b) { return a.modules < b.modules; });
  std::int64_t block = 0;
  for (ShardGroup& group : groups) {
    const bool is_block = modules[group.modules.front()].kind == Module::Kind::block;
    group.block = is_block ? block++ : -1;
  }
  ShardGroup root;
  root.is_root = true;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (!is_taken[module]) {
      add_parameters(root, modules[module]);
    }
  }
  if (!root.parameters.empty()) {
    groups.insert(groups.begin(), std::move(root));
  }
  return groups;
}

}  // namespace commlens::pytorch
