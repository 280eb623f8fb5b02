#pragma once
#include <vector>

#include "commlens/app/bench_launch.hpp"

namespace commlens {

/// The whole launches of a run in the order in which they began, those of one burst together
/// (launch_bursts()).
std::vector<std::vector<const BenchLaunch*>> bursts_of(const BenchRun& run);

}  // namespace commlens
