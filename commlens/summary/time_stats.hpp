#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace commlens {

/// Durations of calls, from start to completion (docs/summary.md#times).
///
/// Quantiles are by nearest rank: of n calls in ascending order, P50 is the ceil(n / 2)-th and P95 the
/// ceil(95 n / 100)-th, so each is a time that occurred. `p50_low` and `p50_high` are the l-th and the
/// (n + 1 - l)-th, with l the largest number for which a binomial variable of n trials of 1/2 is below l with
/// a probability of at most 2.5 %: an interval that holds the median of what the calls were drawn from with
/// at least 95 %, whatever the distribution, if they are independent. (Calls of one collective on several
/// ranks are not: then the interval is too narrow.) It exists from 6 calls on. Source: H. A. David, H. N.
/// Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1.
///
/// `exact`: below k_exact_samples calls, and, once the rows of a summary hold more than k_most_held_samples
/// together, while a row's durations take no more memory than their histogram. Else quantiles come from that
/// histogram and are within k_quantile_error of the exact ones; calls, total, shortest and longest are always
/// exact.
struct TimeStats {
  std::int64_t calls = 0;  // of all ranks, at least 1
  std::chrono::nanoseconds total{};
  // Of single calls; absent if times are averages of several (Provenance::averaged_times).
  std::optional<std::chrono::nanoseconds> shortest;
  std::optional<std::chrono::nanoseconds> longest;
  std::optional<std::chrono::nanoseconds> p50;
  std::chrono::nanoseconds p50_low{};  // without an interval: as p50
  std::chrono::nanoseconds p50_high{};
  std::optional<std::chrono::nanoseconds> p95;
  bool has_interval = false;
  bool exact = true;
  /// Calls and total alone.
  TimeStats sums_only() const { return {.calls = calls, .total = total}; }
  double mean_ns() const { return static_cast<double>(total.count()) / static_cast<double>(calls); }
  friend bool operator==(const TimeStats&, const TimeStats&) = default;
};

constexpr std::int64_t k_exact_samples = 1'000'000;
constexpr std::int64_t k_most_held_samples = std::int64_t{32} << 20;  // 256 MiB
constexpr double k_quantile_error = 0.01;                             // relative

/// l of TimeStats for n samples, 1-based; 0 when n < 6.
std::int64_t median_interval_rank(std::int64_t samples);

/// Collects durations: each of them up to k_exact_samples - 1, then a histogram of at most 4,096 counters.
class DurationStats {
 public:
  /// A duration (>= 0) of a call that `ranks` ranks make with equal times: one sample that counts `ranks`
  /// times.
  void add(std::chrono::nanoseconds duration, std::int64_t ranks = 1);
  void merge(const DurationStats& other);
  bool empty() const { return calls_ == 0; }
  /// Numbers of 8 bytes that are held: durations, or the counters of the histogram.
  std::int64_t held() const { return std::ssize(durations_) + std::ssize(counters_); }
  /// Makes the histogram now.
  void forget_durations();
  /// Makes the histogram now if it has fewer numbers than there are durations.
  void save_memory();
  /// std::nullopt if empty.
  std::optional<TimeStats> stats() const;

 private:
  /// Samples up to `end` that count for `ranks` each.
  struct Run {
    std::size_t end = 0;
    std::int64_t ranks = 1;
  };
  void count(std::size_t counter, std::int64_t calls);
  void count_durations_of(const DurationStats& other);
  TimeStats without_quantiles() const;
  TimeStats with_equal_weights() const;
  /// Durations, ascending, and their calls.
  std::vector<std::pair<std::int64_t, std::int64_t>> weighted() const;

  bool is_exact_ = true;
  std::int64_t samples_ = 0;
  std::int64_t calls_ = 0;  // samples times their ranks
  std::int64_t total_ = 0;
  std::int64_t shortest_ = INT64_MAX;
  std::int64_t longest_ = 0;
  std::vector<std::int64_t> durations_;  // while exact, and …
  std::vector<Run> runs_;                // … in runs of the same number of ranks; after that …
  std::vector<std::int64_t> counters_;   // … calls of each counter, …
  std::size_t first_counter_ = 0;        // … from this one on
};

}  // namespace commlens
