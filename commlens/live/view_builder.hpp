#pragma once
#include <memory>
#include <vector>

#include "commlens/live/follow_options.hpp"
#include "commlens/live/job_view.hpp"
#include "commlens/live/rank_follower.hpp"

// From the state of followed ranks to what a poll yields.
namespace commlens {

/// The states of `ranks` for a verdict, and what they have done.
JobProgress progress_of(const FollowedJob& job, const std::vector<std::unique_ptr<RankFollower>>& ranks);

/// Fills the ranks of a view, whose hang, alerts and processes are known.
void fill_ranks(JobView& view, const FollowedJob& job,
                const std::vector<std::unique_ptr<RankFollower>>& ranks, const PollTime& time);

}  // namespace commlens
