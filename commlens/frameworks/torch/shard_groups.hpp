#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// The parameters that one call of fully_shard (or one wrapped unit of FSDP1) manages.
struct ShardGroup {
  std::vector<const Parameter*> parameters;
  std::vector<std::size_t> modules;  // of the stage, in forward order; of the root none
  bool is_root = false;
  std::int64_t block = -1;  // place among the blocks of the stage; -1: no block
};

/// The groups of a stage's modules, the root (where it has parameters of its own) first, the others in
/// forward order. `modules` outlives them.
std::vector<ShardGroup> shard_groups(const Job& job, const std::vector<Module>& modules);

/// Bytes and counts of what a group sends. Sources: rules C1 to C6 and B of docs/frameworks/torch.md.
struct GroupSizes {
  Elements gathered_shard;  // this rank's part, in elements of `gather_dtype`
  DType gather_dtype = DType::fp32;
  Elements reduced;  // parameters with gradients, padded: what reduce_scatter takes
  DType reduce_dtype = DType::fp32;
  Elements unpadded;  // of the parameters with gradients
};
GroupSizes sizes_of(const ShardGroup& group, const Job& job, const Groups& groups);

}  // namespace commlens::pytorch
