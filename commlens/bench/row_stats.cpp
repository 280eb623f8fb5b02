#include "commlens/bench/row_stats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/bench/median.hpp"

namespace commlens::bench {
namespace {

constexpr std::array<std::pair<RowFlag, std::string_view>, 9> k_flag_names = {
    {{RowFlag::unsettled, "unsettled"},
     {RowFlag::bimodal, "bimodal"},
     {RowFlag::drifting, "drifting"},
     {RowFlag::contaminated, "contaminated"},
     {RowFlag::skewed, "skewed"},
     {RowFlag::oversubscribed, "oversubscribed"},
     {RowFlag::local_clock, "local_clock"},
     {RowFlag::few_samples, "few_samples"},
     {RowFlag::assumed_parts, "assumed_parts"}}};

constexpr std::size_t k_fewest_for_shape = 20;  // of a distribution

double mean_of_values(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Sums of the first values of a sorted list.
struct RunningSums {
  std::vector<double> sum{0};
  std::vector<double> squares{0};

  explicit RunningSums(std::span<const double> values) {
    for (const double value : values) {
      sum.push_back(sum.back() + value);
      squares.push_back(squares.back() + value * value);
    }
  }
  double mean(std::size_t from, std::size_t to) const {
    return (sum[to] - sum[from]) / static_cast<double>(to - from);
  }
  /// Sum of the squared distances from the mean.
  double spread(std::size_t from, std::size_t to) const {
    const double m = mean(from, to);
    return std::max(0.0, squares[to] - squares[from] - static_cast<double>(to - from) * m * m);
  }
};

/// Places in the order of size, equal values sharing the middle of theirs.
std::vector<double> ranks_of_values(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from;
    while (to < order.size() && values[order[to]] == values[order[from]]) {
      ++to;
    }
    for (std::size_t at = from; at < to; ++at) {
      ranks[order[at]] = static_cast<double>(from + to - 1) / 2;
    }
    from = to;
  }
  return ranks;
}

/// The mean without the longest hundredth, one value at least: a single interruption of a few milliseconds
/// moves the mean of a thousand calls of a microsecond out of their range, and says nothing of the median.
double mean_without_longest(std::span<const double> times) {
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t left_out = std::max<std::size_t>(1, sorted.size() / 100);
  return mean_of_values(std::span(sorted).first(sorted.size() - left_out));
}

/// Context switches say nothing where ranks take turns anyway.
bool is_contaminated(const RowSamples& samples, std::span<const double> times, const RowStats& stats,
                     bool is_oversubscribed) {
  constexpr double k_most_interrupted = 0.05;
  constexpr double k_below = 1 - 1e-9;  // a sum of equal numbers is rounded
  constexpr double k_above = 1 + 1e-9;
  const auto interrupted = static_cast<double>(std::count_if(
      samples.switches.begin(), samples.switches.end(), [](std::int64_t switches) { return switches > 0; }));
  const bool is_interrupted = interrupted > k_most_interrupted * static_cast<double>(samples.switches.size());
  bool is_outside = false;
  if (stats.samples >= static_cast<std::int64_t>(k_fewest_for_shape)) {
    const double mean = mean_without_longest(times);
    is_outside = mean < k_below * quantile(times, 0.05) || mean > k_above * quantile(times, 0.95);
  }
  return is_outside || (is_interrupted && !is_oversubscribed);
}

std::vector<RowFlag> flags_of(const RowSamples& samples, std::span<const double> times, const RowStats& stats,
                              const RowSurroundings& surroundings) {
  constexpr double k_settled = 0.05;
  constexpr double k_most_skew = 0.1;
  std::vector<RowFlag> flags;
  const auto add = [&](bool is_so, RowFlag flag) {
    if (is_so) {
      flags.push_back(flag);
    }
  };
  const bool has_interval = stats.low_s && stats.high_s;
  add(!has_interval, RowFlag::few_samples);
  add(has_interval && (*stats.high_s - *stats.low_s) / 2 > k_settled * stats.p50_s, RowFlag::unsettled);
  add(is_bimodal(times), RowFlag::bimodal);
  add(is_drifting(times), RowFlag::drifting);
  add(is_contaminated(samples, times, stats, surroundings.is_oversubscribed), RowFlag::contaminated);
  add(stats.skew_s > k_most_skew * stats.p50_s, RowFlag::skewed);
  add(surroundings.is_oversubscribed, RowFlag::oversubscribed);
  return flags;
}

/// Those of one message where a sample has several.
void divide_times(RowStats& stats, double messages) {
  for (double* const time : {&stats.p50_s, &stats.min_s, &stats.mean_s}) {
    *time /= messages;
  }
  for (std::optional<double>* const time : {&stats.low_s, &stats.high_s, &stats.p95_s, &stats.p99_s}) {
    if (*time) {
      **time /= messages;
    }
  }
}

}  // namespace

std::string_view name_of(RowFlag flag) {
  return std::find_if(k_flag_names.begin(), k_flag_names.end(),
                      [&](const auto& named) { return named.first == flag; })
      ->second;
}

std::optional<RowFlag> row_flag_from(std::string_view name) {
  const auto* const found = std::find_if(k_flag_names.begin(), k_flag_names.end(),
                                         [&](const auto& named) { return named.second == name; });
  return found == k_flag_names.end() ? std::nullopt : std::optional(found->first);
}

RowStats stats_of(const RowSamples& samples, const RowSurroundings& surroundings) {
  COMMLENS_CHECK(!samples.span_s.empty(), "a row without samples has no figures");
  constexpr std::size_t k_fewest_for_p99 = 100;
  constexpr double k_most_clock_error = 0.1;
  const bool is_local =
      surroundings.clock_error_s > k_most_clock_error * std::max(0.0, quantile(samples.span_s, 0.5));
  const std::span<const double> times = is_local ? samples.local_s : samples.span_s;
  RowStats stats;
  stats.samples = static_cast<std::int64_t>(times.size());
  stats.p50_s = quantile(times, 0.5);
  if (const std::optional<MedianInterval> interval = median_interval(times)) {
    stats.low_s = interval->low;
    stats.high_s = interval->high;
  }
  stats.min_s = *std::min_element(times.begin(), times.end());
  stats.mean_s = mean_of_values(times);
  if (times.size() >= k_fewest_for_shape) {
    stats.p95_s = quantile(times, 0.95);
  }
  if (times.size() >= k_fewest_for_p99) {
    stats.p99_s = quantile(times, 0.99);
  }
  stats.skew_s = quantile(samples.skew_s, 0.5);
  stats.first_s = samples.first_s;
  stats.flags = flags_of(samples, times, stats, surroundings);
  if (is_local) {
    stats.flags.push_back(RowFlag::local_clock);
  }
  divide_times(stats, surroundings.messages);  // last: the clock's error and the skew are of whole samples
  return stats;
}

bool is_bimodal(std::span<const double> values) {
  constexpr double k_apart = 4;
  if (values.size() < k_fewest_for_shape) {
    return false;
  }
  std::vector<double> logarithms;
  for (const double value : values) {
    logarithms.push_back(std::log(std::max(value, 1e-12)));
  }
  std::sort(logarithms.begin(), logarithms.end());
  const RunningSums sums(logarithms);
  const std::size_t count = logarithms.size();
  const std::size_t least = count / 10;
  std::size_t best = least;
  for (std::size_t split = least; split <= count - least; ++split) {
    if (sums.spread(0, split) + sums.spread(split, count) < sums.spread(0, best) + sums.spread(best, count)) {
      best = split;
    }
  }
  const double between = sums.mean(best, count) - sums.mean(0, best);
  const double within = sums.spread(0, best) / static_cast<double>(best) +
                        sums.spread(best, count) / static_cast<double>(count - best);
  return std::sqrt(2.0) * between > k_apart * std::sqrt(within) && between > 0;
}

bool is_drifting(std::span<const double> values) {
  constexpr double k_significant = 3.29;
  constexpr double k_matters = 0.05;
  if (values.size() < k_fewest_for_shape) {
    return false;
  }
  const std::vector<double> ranks = ranks_of_values(values);
  const auto count = static_cast<double>(values.size());
  const double middle = (count - 1) / 2;
  double together = 0;
  double spread = 0;
  double spread_of_order = 0;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const double order = static_cast<double>(place) - middle;
    together += order * (ranks[place] - middle);
    spread += (ranks[place] - middle) * (ranks[place] - middle);
    spread_of_order += order * order;
  }
  if (spread == 0) {
    return false;
  }
  const double z = together / std::sqrt(spread * spread_of_order) * std::sqrt(count - 1);
  const std::size_t third = values.size() / 3;
  const double first = quantile(values.first(third), 0.5);
  const double last = quantile(values.last(third), 0.5);
  return std::abs(z) > k_significant && std::abs(last - first) > k_matters * std::min(first, last);
}

}  // namespace commlens::bench
