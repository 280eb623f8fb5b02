#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/report/table.hpp"
#include "commlens/summary/slow_ranks.hpp"

namespace commlens {

/// "rank 2 is slow: 371 ms between its calls, 270 ms more than the median of world x4, in 8 of 8 blocks". One
/// such line for each rank that is persistently slow, the slowest first, at most a few; without one a line
/// that says so. Empty when no blocks were compared.
std::string slow_ranks_verdict(const SlowRanks& slow);

/// The time of each rank between its calls and in them, under a title, and the verdict; the ranks with most
/// to say where there are many. Empty when no blocks were compared.
std::string slow_ranks_text(const SlowRanks& slow, const TextStyle& style);

/// {"block_calls": 64, "ranks": […], "groups": […], …}; times in "_ns".
nlohmann::ordered_json slow_ranks_json(const SlowRanks& slow);

}  // namespace commlens
