#include "commlens/compare/significance.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace commlens {
namespace {

/// Two-sided probability of a standard normal variable.
double two_sided(double z) { return std::erfc(std::fabs(z) / std::numbers::sqrt2); }

/// Toward the mean by one half, not beyond it.
double corrected(double difference) {
  constexpr double continuity = 0.5;
  return std::copysign(std::max(std::fabs(difference) - continuity, 0.0), difference);
}

constexpr std::size_t k_most_exact = 60;  // values: sums of ranks up to 3,660 are counted

/// Twice the mid-ranks of the values of both samples, those of `a` first: whole numbers.
std::vector<std::size_t> doubled_ranks(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::vector<double> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> ranks;
  for (const double value : all) {
    const auto [first, end] = std::equal_range(sorted.begin(), sorted.end(), value);
    ranks.push_back(static_cast<std::size_t>((first - sorted.begin()) + 1 + (end - sorted.begin())));
  }
  return ranks;
}

}  // namespace

double exact_p(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) {
    return 1;
  }
  if (a.size() + b.size() > k_most_exact) {
    return mann_whitney(a, b).p;
  }
  const std::vector<std::size_t> ranks = doubled_ranks(a, b);
  const std::size_t largest = std::accumulate(ranks.begin(), ranks.end(), std::size_t{0});
  // choices[n][sum]: so many ways to take n of the values whose ranks have this sum.
  std::vector<std::vector<double>> choices(a.size() + 1, std::vector<double>(largest + 1, 0.0));
  choices[0][0] = 1;
  for (const std::size_t rank : ranks) {
    for (std::size_t taken = a.size(); taken > 0; --taken) {
      for (std::size_t sum = largest; sum >= rank; --sum) {
        choices[taken][sum] += choices[taken - 1][sum - rank];
      }
    }
  }
  const auto own =
      static_cast<double>(std::accumulate(ranks.begin(), ranks.begin() + std::ssize(a), std::size_t{0}));
  const double mean = static_cast<double>(largest * a.size()) / static_cast<double>(ranks.size());
  double as_far = 0;
  double all = 0;
  for (std::size_t sum = 0; sum <= largest; ++sum) {
    all += choices.back()[sum];
    constexpr double k_rounding = 1e-6;
    as_far += std::fabs(static_cast<double>(sum) - mean) >= std::fabs(own - mean) - k_rounding
                  ? choices.back()[sum]
                  : 0;
  }
  return as_far / all;
}

double simes(std::vector<double> p_values) {
  std::sort(p_values.begin(), p_values.end());
  double smallest = 1;
  for (std::size_t at = 0; at < p_values.size(); ++at) {
    smallest =
        std::min(smallest, p_values[at] * static_cast<double>(p_values.size()) / static_cast<double>(at + 1));
  }
  return smallest;
}

double smallest_exact_p(std::int64_t values_a, std::int64_t values_b) {
  if (values_a < 1 || values_b < 1 || static_cast<std::size_t>(values_a + values_b) > k_most_exact) {
    return smallest_p(values_a, values_b);
  }
  double p = values_a == 1 && values_b == 1 ? 1 : 2;
  for (std::int64_t at = 1; at <= values_a; ++at) {
    p *= static_cast<double>(at) / static_cast<double>(values_b + at);
  }
  return std::min(p, 1.0);
}

RankSumTest mann_whitney(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;  // value, whether it is of b
  for (const double value : a) {
    all.emplace_back(value, false);
  }
  for (const double value : b) {
    all.emplace_back(value, true);
  }
  std::sort(all.begin(), all.end());
  double rank_sum_b = 0;
  double ties = 0;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first;
    double of_b = 0;
    while (end < all.size() && all[end].first == all[first].first) {
      of_b += all[end].second ? 1 : 0;
      ++end;
    }
    const auto equal = static_cast<double>(end - first);
    const double mid_rank = (static_cast<double>(first + 1) + static_cast<double>(end)) / 2;
    rank_sum_b += of_b * mid_rank;
    ties += equal * equal * equal - equal;
    first = end;
  }
  const auto count_a = static_cast<double>(a.size());
  const auto count_b = static_cast<double>(b.size());
  const double count = count_a + count_b;
  RankSumTest test;
  test.u = rank_sum_b - count_b * (count_b + 1) / 2;
  if (a.empty() || b.empty()) {
    return test;
  }
  const double variance = count_a * count_b / 12 * ((count + 1) - ties / (count * (count - 1)));
  if (variance > 0) {
    test.z = corrected(test.u - count_a * count_b / 2) / std::sqrt(variance);
    test.p = two_sided(test.z);
  }
  return test;
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size(), 1.0);
  double largest = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto left = static_cast<double>(order.size() - at);
    largest = std::max(largest, std::min(1.0, left * p_values[order[at]]));
    adjusted[order[at]] = largest;
  }
  return adjusted;
}

double smallest_p(std::int64_t values_a, std::int64_t values_b) {
  const auto a = static_cast<double>(values_a);
  const auto b = static_cast<double>(values_b);
  if (values_a == 0 || values_b == 0) {
    return 1;
  }
  return two_sided(corrected(a * b / 2) / std::sqrt(a * b / 12 * (a + b + 1)));
}

}  // namespace commlens
