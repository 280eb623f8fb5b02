#include "commlens/app/bench_bursts.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "commlens/app/launch_bursts.hpp"

namespace commlens {

std::vector<std::vector<const BenchLaunch*>> bursts_of(const BenchRun& run) {
  std::vector<const BenchLaunch*> whole;
  std::vector<std::optional<std::int64_t>> began_ns;
  for (const BenchLaunch& launch : run.launches) {
    if (!launch.is_partial) {
      whole.push_back(&launch);
      began_ns.push_back(launch.began_ns);
    }
  }
  std::vector<std::vector<const BenchLaunch*>> bursts;
  for (const std::vector<std::size_t>& burst : launch_bursts(began_ns)) {
    std::vector<const BenchLaunch*>& added = bursts.emplace_back();
    for (const std::size_t launch : burst) {
      added.push_back(whole[launch]);
    }
  }
  return bursts;
}

}  // namespace commlens
