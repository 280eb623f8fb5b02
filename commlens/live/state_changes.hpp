#pragma once
#include "commlens/live/job_view.hpp"

// What differs between two states of a node, the later one second.
namespace commlens {

/// Whether a rank has entered and left no call.
bool is_unmoved(const RankProgress& before, const RankProgress& now);

/// Whether they are of a job of one name and number. Without a batch system, or before a rank has begun, a
/// job has its name alone.
bool is_same_job(const JobView& before, const JobView& now);

/// Whether a rank that is in both has another process: its folder has another recording.
bool has_other_processes(const JobView& before, const JobView& now);

}  // namespace commlens
