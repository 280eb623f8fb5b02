#pragma once
#include <string>
#include <vector>

#include "commlens/bench/replay_plan.hpp"

namespace commlens::bench {

/// "all_reduce of 4.00 KiB fp32".
std::string replayed_text(const CommCall& call);
/// "ranks 0, 1, 2", of many the first ones.
std::string replayed_text(const std::vector<Rank>& ranks);
/// "the dp group of 4 ranks (0, 1, 2, 3)".
std::string replayed_text(const ReplayGroup& group);

}  // namespace commlens::bench
