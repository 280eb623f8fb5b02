#pragma once
#include <chrono>
#include <cstddef>
#include <set>

#include "commlens/live/job_view.hpp"

// What a rank does, by who waits for whom. Rows are those of LiveHang::job.ranks.
namespace commlens {

/// The call that a rank is in: the one it waits in, else the first blocking one, else the first; nullptr:
/// none.
const SeenCall* call_of(const LiveHang& hang, std::size_t row);

LiveCall live_call(const SeenCall& call, std::chrono::nanoseconds open_for);

/// Rows that cannot go on by a confirmed verdict; a culprit in no call can.
std::set<std::size_t> stuck_rows(const LiveHang& hang);

/// Of a rank whose files are there; its error and process state are known.
LiveRankState state_of(const LiveRank& rank, const LiveHang& hang, std::size_t row, bool is_stuck);

}  // namespace commlens
