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

std::optional<MedianInterval> exact_median_interval(std::span<const double> values) {
  constexpr std::size_t k_most_exact = 1000;  // 2^-N is a number still
  constexpr double k_outside = 0.025;         // at each end
  if (values.size() >= k_most_exact) {
    return median_interval(values);
  }
  const auto count = static_cast<double>(values.size());
  double exactly = std::pow(0.5, count);  // the probability of `below` values under the median
  double at_most = exactly;
  std::size_t skipped = 0;
  for (double below = 0; at_most <= k_outside; ++below) {
    ++skipped;
    exactly *= (count - below) / (below + 1);
    at_most += exactly;
  }
  if (skipped == 0) {
    return std::nullopt;
  }
  const std::vector<double> sorted = sorted_copy(values);
  return MedianInterval{quantile_of_sorted(sorted, 0.5), sorted.at(skipped - 1),
                        sorted.at(sorted.size() - skipped)};
}

double quantile(std::span<const double> values, double share) {
  COMMLENS_CHECK(!values.empty(), "nothing has no quantile");
  return quantile_of_sorted(sorted_copy(values), share);
}

}  // namespace commlens::bench
