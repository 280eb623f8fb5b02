#pragma once
#include <vector>

#include "commlens/live/job_progress.hpp"
#include "commlens/live/process_look.hpp"

// What the processes of a job's ranks say of it; `processes` are those of job.ranks.
namespace commlens {

std::vector<ProcessState> look_at_processes(const JobProgress& job);

/// Whether a rank that has not ended has a process.
bool has_live_rank(const JobProgress& job, const std::vector<ProcessState>& processes);

/// Whether all processes that are there are stopped: the job was suspended as a whole.
bool is_suspended(const JobProgress& job, const std::vector<ProcessState>& processes);

/// A process that is gone or stopped cannot go on; where all are, the job was ended or suspended as a whole.
void mark_halted(JobProgress& job, const std::vector<ProcessState>& processes);

}  // namespace commlens
