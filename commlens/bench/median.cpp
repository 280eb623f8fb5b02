#include "commlens/bench/median.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "commlens/base/check.hpp"

namespace commlens::bench {
namespace {

constexpr std::size_t k_fewest_for_interval = 30;

double quantile_of_sorted(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

std::optional<MedianInterval> median_interval(std::span<const double> values) {
  if (values.size() < k_fewest_for_interval) {
    return std::nullopt;
  }
  const std::vector<double> sorted = sorted_copy(values);
  const auto count = static_cast<double>(sorted.size());
  const double spread = 1.96 * std::sqrt(count);
  const auto low = static_cast<std::size_t>(std::floor((count - spread) / 2));
  const auto high = static_cast<std::size_t>(1 + std::ceil((count + spread) / 2));
  // Both count from 1; 30 values have places 9 and 22.
  return MedianInterval{quantile_of_sorted(sorted, 0.5), sorted.at(low - 1),
                        sorted.at(std::min(high, sorted.size()) - 1)};
}

double quantile(std::span<const double> values, double share) {
  COMMLENS_CHECK(!values.empty(), "nothing has no quantile");
  return quantile_of_sorted(sorted_copy(values), share);
}

}  // namespace commlens::bench
