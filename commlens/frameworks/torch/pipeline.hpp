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

/// The actions of all ranks at the job's release; none where each has one stage.
std::vector<RankActions> actions_of_ranks(const Job& job, const PipelineShape& shape);

/// The programs of these ranks of a pipeline whose stages are parts of a case file's tree.
Result<std::vector<StagePrograms>> write_pipeline(const Job& job, std::span<const std::int64_t> ranks,
                                                  Plan& plan);

}  // namespace commlens::pytorch
