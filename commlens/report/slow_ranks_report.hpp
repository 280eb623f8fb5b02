#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/slow_ranks.hpp"

namespace commlens {

/// The group by which a rank was judged: "dp x4". Precondition: the rank was compared.
std::string slow_ranks_group(const SlowRanks& slow, const RankWork& rank);

/// "rank 2 is slow: in 8 of 8 blocks of world x4 it spent 270 ms more between its calls than the median
/// rank". One such line for each rank that is persistently slow, the slowest first, at most a few; without
/// one a line that says so. None when no blocks were compared.
std::vector<std::string> slow_ranks_verdicts(const SlowRanks& slow);

/// The parts that are in no block because the members' calls differ; empty if there are none.
std::string skipped_parts_text(const SlowRanks& slow);

/// A titled table of each rank's time between its calls and in them, and the verdict; of many ranks, those
/// with the largest excess. Empty if no blocks were compared.
std::string slow_ranks_text(const SlowRanks& slow, const TextStyle& style);

/// The same table, of some of the ranks.
Table slow_ranks_table(const SlowRanks& slow, const std::vector<RankWork>& rows);

/// {"block_calls": 64, "by_rank": […], "groups": […], …}; times in "_ns".
nlohmann::ordered_json slow_ranks_json(const SlowRanks& slow);

}  // namespace commlens
