#pragma once
#include <cstdint>
#include <vector>

#include "commlens/live/job_view.hpp"

namespace commlens {

/// The rows of all nodes, added. A node may not know how many ranks the job has, and so which groups are of
/// all.
std::vector<LiveOp> merged_ops(const std::vector<const std::vector<LiveOp>*>& nodes, std::int64_t job_ranks);

}  // namespace commlens
