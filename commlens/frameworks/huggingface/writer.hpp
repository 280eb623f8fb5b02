#pragma once
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/torch/shard_groups.hpp"

namespace commlens::huggingface {

/// The programs of a job: one stage.
Result<std::vector<StagePrograms>> write_job(const Job& job, Plan& plan);

/// What accelerate wraps with fully_shard, or FSDP1 with its policy, on `mesh` (accelerate
/// utils/fsdp_utils.py fsdp2_prepare_model): the root where it has parameters of its own, then in forward
/// order. `modules`, those of model_modules(), outlive it.
std::vector<pytorch::ShardUnit> shard_units(const Job& job, const std::vector<pytorch::Module>& modules,
                                            const pytorch::ShardMesh& mesh);

}  // namespace commlens::huggingface
