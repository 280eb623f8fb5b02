#include "commlens/app/bench_bursts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace commlens {

std::vector<std::vector<const BenchLaunch*>> bursts_of(const BenchRun& run) {
  std::vector<const BenchLaunch*> whole;
  for (const BenchLaunch& launch : run.launches) {
    if (!launch.is_partial) {
      whole.push_back(&launch);
    }
  }
  // Several jobs may have added to the file at once.
  std::stable_sort(whole.begin(), whole.end(), [](const BenchLaunch* a, const BenchLaunch* b) {
    return a->began_ns.value_or(0) < b->began_ns.value_or(0);
  });
  const std::int64_t least = std::chrono::nanoseconds(k_least_launch_distance).count();
  std::vector<std::vector<const BenchLaunch*>> bursts;
  for (const BenchLaunch* const launch : whole) {
    const std::optional<std::int64_t> before =
        bursts.empty() ? std::nullopt : bursts.back().front()->began_ns;
    if (!before || !launch->began_ns || *launch->began_ns - *before >= least) {
      bursts.emplace_back();
    }
    bursts.back().push_back(launch);
  }
  return bursts;
}

}  // namespace commlens
