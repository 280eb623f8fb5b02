#pragma once
#include <chrono>
#include <vector>

#include "commlens/app/bench_launch.hpp"

namespace commlens {

/// The whole launches of a run in their order, those of one burst together: launches that began within a
/// quarter of a second share one state of the machine (which other processes run, at which clock rate), and
/// are no independent measurements. A launch whose begin is not known is a burst of its own.
std::vector<std::vector<const BenchLaunch*>> bursts_of(const BenchRun& run);

/// How far apart launches begin that are independent.
constexpr std::chrono::milliseconds k_least_launch_distance{250};

}  // namespace commlens
