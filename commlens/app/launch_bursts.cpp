#include "commlens/app/launch_bursts.hpp"

#include <algorithm>
#include <numeric>

namespace commlens {

std::vector<std::vector<std::size_t>> launch_bursts(std::span<const std::optional<std::int64_t>> began_ns) {
  // Several jobs may have added to a file at once.
  std::vector<std::size_t> order(began_ns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return began_ns[a] < began_ns[b]; });
  const std::int64_t least = std::chrono::nanoseconds(k_least_launch_distance).count();
  std::vector<std::vector<std::size_t>> bursts;
  for (const std::size_t launch : order) {
    const std::optional<std::int64_t> before = bursts.empty() ? std::nullopt : began_ns[bursts.back().back()];
    if (!before || !began_ns[launch] || *began_ns[launch] - *before >= least) {
      bursts.emplace_back();
    }
    bursts.back().push_back(launch);
  }
  return bursts;
}

}  // namespace commlens
