#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {

PipelineShape pipeline_shape(const Job& job);
/// Whether the ranks run lock_step_actions() at the job's release and schedule.
bool runs_in_lock_step(const Job& job);

/// The programs of these ranks of a pipeline: torch.distributed.pipelining over modules that may be sharded,
/// reduced by DDP or split by tensor ranks.
Result<std::vector<StagePrograms>> write_pipeline(const Job& job, std::span<const std::int64_t> ranks,
                                                  Plan& plan);

}  // namespace commlens::pytorch
