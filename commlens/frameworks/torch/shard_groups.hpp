#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// Parameters that are gathered and reduced together (FSDPParamGroup).
struct ShardGroup {
  std::vector<const Parameter*> parameters;
  ShardMesh mesh;
  bool has_gradients() const;
};

/// What one call of fully_shard (or one wrapped unit of FSDP1) manages.
struct ShardUnit {
  std::vector<ShardGroup> groups;    // one, unless parameters of a module have meshes of their own
  std::vector<std::size_t> modules;  // of the stage, in forward order; of the root none
  bool is_root = false;
  std::int64_t block = -1;  // place among the blocks of the stage; -1: no block
  /// Given to this call; absent: as `Fsdp::reshard_after_forward` has it.
  std::optional<bool> reshards_after_forward = {};
  /// set_modules_to_forward_prefetch, set_modules_to_backward_prefetch: modules of other units; empty: as
  /// `Fsdp::forward_prefetch` has it, which no unit with modules here may use.
  std::vector<std::size_t> forward_prefetch = {};
  std::vector<std::size_t> backward_prefetch = {};
};

/// The units of a stage's modules as `Fsdp::units` names them, the root (where it has parameters of its own)
/// first, the others in forward order; their meshes are of one rank. `modules` outlives them.
std::vector<ShardUnit> shard_units(const Job& job, const std::vector<Module>& modules);

/// Bytes and counts of what a group sends. Sources: rules C1 to C6 and B of docs/frameworks/torch.md.
struct GroupSizes {
  Elements gathered_shard;  // this rank's part, in elements of `gather_dtype`
  DType gather_dtype = DType::fp32;
  Elements reduced;  // parameters with gradients, padded: what reduce_scatter takes
  DType reduce_dtype = DType::fp32;
  Elements unpadded;  // of the parameters with gradients
};
GroupSizes sizes_of(const ShardGroup& group, const Job& job);

}  // namespace commlens::pytorch
