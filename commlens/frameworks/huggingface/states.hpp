#pragma once
#include <vector>

#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/shard_groups.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::huggingface {

/// Whether rank 0 alone has the weights and gives the others theirs (FSDP2 with cpu_ram_efficient_loading).
bool loads_on_rank0(const Job& job);

/// fsdp2_load_full_state_dict of accelerate 1.15 (utils/fsdp_utils.py): each parameter is broadcast to all
/// and then scattered (distribute_tensor), in the order of the state dict.
void load_states(ProgramBuilder& out, const pytorch::Groups& groups,
                 const std::vector<pytorch::Module>& modules, bool is_rank0);

/// A checkpoint of whole states (state_dict_type FULL_STATE_DICT) of a model that FSDP2 shards: parameters
/// are gathered one by one for the model's own file and for accelerate's, then both moments of each.
void save_states(ProgramBuilder& out, const pytorch::Groups& groups,
                 const std::vector<pytorch::Module>& modules);

/// The same of a model that FSDP1 shards: each unit is gathered for both files; then descriptions of the
/// optimizer's states, as pickled objects, and both moments of each unit (torch 2.15
/// distributed/fsdp/_optim_utils.py).
void save_flat_states(ProgramBuilder& out, const std::vector<pytorch::ShardUnit>& units);

}  // namespace commlens::huggingface
