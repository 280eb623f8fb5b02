#include "commlens/summary/time_stats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
__extension__ using Wide = __int128;  // a count times a count

// A counter for each of 0, 1, … 127 ns, then 64 for each power of two up to 2^63: each is at most 1/64 of its
// lower end wide, so its middle is at most 1/128 from any duration in it.
constexpr std::int64_t k_single = 128;
constexpr int k_single_bits = 7;
constexpr std::int64_t k_per_octave = 64;
static_assert(1.0 / 128 <= k_quantile_error);

std::size_t counter_of(std::int64_t duration) {
  if (duration < k_single) {
    return static_cast<std::size_t>(duration);
  }
  const int octave = 63 - std::countl_zero(static_cast<std::uint64_t>(duration)) - k_single_bits;
  const std::int64_t within = (duration >> (octave + 1)) - k_per_octave;
  return static_cast<std::size_t>(k_single + octave * k_per_octave + within);
}

/// The middle of a counter's durations.
std::int64_t duration_of(std::size_t counter) {
  const auto place = static_cast<std::int64_t>(counter);
  if (place < k_single) {
    return place;
  }
  const auto octave = static_cast<int>((place - k_single) / k_per_octave);
  const std::int64_t lower = (k_per_octave + (place - k_single) % k_per_octave) << (octave + 1);
  return lower + ((std::int64_t{2} << octave) - 1) / 2;
}

/// Logarithm of the probability of exactly `wins` in `trials` of 1/2.
double log_binomial(double trials, double wins) {
  return std::lgamma(trials + 1) - std::lgamma(wins + 1) - std::lgamma(trials - wins + 1) -
         trials * std::numbers::ln2;
}

/// Probability of at most `wins` in `trials` of 1/2, `wins` < trials / 2.
double at_most(std::int64_t trials, std::int64_t wins) {
  const auto n = static_cast<double>(trials);
  double sum = 0;
  double term = wins < 0 ? 0 : std::exp(log_binomial(n, static_cast<double>(wins)));
  for (std::int64_t k = wins; k >= 0 && term > 1e-18; --k) {
    sum += term;
    term *= static_cast<double>(k) / (n - static_cast<double>(k) + 1);
  }
  return sum;
}

/// Ranks of the quantiles in the ascending order, counted from 1.
struct Places {
  std::int64_t p50 = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t p95 = 0;
};

std::int64_t share_up(std::int64_t part, std::int64_t whole, std::int64_t calls) {
  return static_cast<std::int64_t>((Wide{calls} * part + whole - 1) / whole);
}

/// The same among `calls` calls of `samples` independent samples.
Places places_of(std::int64_t samples, std::int64_t calls) {
  const std::int64_t rank = median_interval_rank(samples);
  Places places{share_up(1, 2, calls), share_up(1, 2, calls), share_up(1, 2, calls),
                share_up(95, 100, calls)};
  if (rank > 0) {
    places.low = share_up(rank, samples, calls);
    places.high = share_up(samples + 1 - rank, samples, calls);
  }
  return places;
}

/// Writes the quantiles from `at(place)`, which is called in ascending order of places.
template <typename At>
void set_quantiles(TimeStats& stats, const Places& places, const At& at) {
  std::array<std::pair<std::int64_t, nanoseconds*>, 4> wanted = {{{places.low, &stats.p50_low},
                                                                  {places.p50, &stats.p50.emplace()},
                                                                  {places.high, &stats.p50_high},
                                                                  {places.p95, &stats.p95.emplace()}}};
  std::sort(wanted.begin(), wanted.end());
  for (const auto& [place, quantile] : wanted) {
    *quantile = nanoseconds(at(place));
  }
}

}  // namespace

std::int64_t median_interval_rank(std::int64_t samples) {
  if (samples < 6) {
    return 0;  // even the whole range misses the median with 2 / 2^n > 5 %
  }
  const auto n = static_cast<double>(samples);
  constexpr double z = 1.959963984540054;  // 97.5 % point of the normal distribution
  auto rank = std::max<std::int64_t>(1, static_cast<std::int64_t>((n - z * std::sqrt(n)) / 2));
  constexpr std::int64_t most = 100'000'000;  // above, the normal approximation is off by at most one place
  if (samples > most) {
    return rank;
  }
  while (at_most(samples, rank) <= 0.025) {
    ++rank;
  }
  while (rank > 1 && at_most(samples, rank - 1) > 0.025) {
    --rank;
  }
  return rank;
}

void DurationStats::add(nanoseconds duration, std::int64_t ranks) {
  const std::int64_t value = duration.count();
  COMMLENS_CHECK(value >= 0, "a call does not end before it starts");
  ++samples_;
  calls_ = saturating_sum(calls_, ranks);
  total_ = saturating_sum(total_, saturating_product(value, ranks));
  shortest_ = std::min(shortest_, value);
  longest_ = std::max(longest_, value);
  if (!is_exact_) {
    count(counter_of(value), ranks);
    return;
  }
  if (runs_.empty() || runs_.back().ranks != ranks) {
    runs_.push_back({durations_.size(), ranks});
  }
  durations_.push_back(value);
  ++runs_.back().end;
  if (samples_ >= k_exact_samples) {
    forget_durations();
  }
}

/// Counters are stored in whole octaves, from the first to the last one in use.
void DurationStats::count(std::size_t counter, std::int64_t calls) {
  constexpr auto octave = static_cast<std::size_t>(k_per_octave);
  if (counters_.empty()) {
    first_counter_ = counter / octave * octave;
  }
  if (counter < first_counter_) {
    const std::size_t first = counter / octave * octave;
    counters_.insert(counters_.begin(), first_counter_ - first, 0);
    first_counter_ = first;
  }
  const std::size_t place = counter - first_counter_;
  if (place >= counters_.size()) {
    counters_.resize((place / octave + 1) * octave);
  }
  counters_[place] = saturating_sum(counters_[place], calls);
}

void DurationStats::forget_durations() {
  if (!is_exact_) {
    return;
  }
  is_exact_ = false;
  count_durations_of(*this);
  durations_ = {};  // releases the memory
  runs_ = {};
}

void DurationStats::save_memory() {
  if (!is_exact_ || empty()) {
    return;
  }
  constexpr auto octave = static_cast<std::size_t>(k_per_octave);
  const std::size_t first = counter_of(shortest_) / octave;
  const std::size_t last = counter_of(longest_) / octave;
  if (durations_.size() > (last - first + 1) * octave) {
    forget_durations();
  }
}

void DurationStats::count_durations_of(const DurationStats& other) {
  std::size_t at = 0;
  for (const Run& run : other.runs_) {
    for (; at < run.end; ++at) {
      count(counter_of(other.durations_[at]), run.ranks);
    }
  }
}

void DurationStats::merge(const DurationStats& other) {
  samples_ += other.samples_;
  calls_ = saturating_sum(calls_, other.calls_);
  total_ = saturating_sum(total_, other.total_);
  shortest_ = std::min(shortest_, other.shortest_);
  longest_ = std::max(longest_, other.longest_);
  if (!other.is_exact_ || samples_ >= k_exact_samples) {
    forget_durations();
  }
  if (!is_exact_) {
    for (std::size_t at = 0; at < other.counters_.size(); ++at) {
      if (other.counters_[at] > 0) {
        count(other.first_counter_ + at, other.counters_[at]);
      }
    }
    count_durations_of(other);
    return;
  }
  const std::size_t before = durations_.size();
  durations_.insert(durations_.end(), other.durations_.begin(), other.durations_.end());
  for (const Run& run : other.runs_) {
    if (runs_.empty() || runs_.back().ranks != run.ranks) {
      runs_.push_back({0, run.ranks});
    }
    runs_.back().end = before + run.end;
  }
}

TimeStats DurationStats::without_quantiles() const {
  TimeStats stats;
  stats.calls = calls_;
  stats.total = nanoseconds(total_);
  stats.shortest = nanoseconds(shortest_);
  stats.longest = nanoseconds(longest_);
  stats.has_interval = median_interval_rank(samples_) > 0;
  stats.exact = is_exact_;
  return stats;
}

TimeStats DurationStats::with_equal_weights() const {
  TimeStats stats = without_quantiles();
  std::vector<std::int64_t> durations = durations_;
  auto begin = durations.begin();
  set_quantiles(stats, places_of(samples_, samples_), [&](std::int64_t place) {
    const auto wanted = durations.begin() + (place - 1);
    std::nth_element(begin, wanted, durations.end());  // elements before the last place are smaller
    begin = wanted;
    return *wanted;
  });
  return stats;
}

std::vector<std::pair<std::int64_t, std::int64_t>> DurationStats::weighted() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ascending;
  std::size_t at = 0;
  for (const Run& run : runs_) {
    for (; at < run.end; ++at) {
      ascending.emplace_back(durations_[at], run.ranks);
    }
  }
  std::sort(ascending.begin(), ascending.end());
  for (std::size_t place = 0; place < counters_.size(); ++place) {
    if (counters_[place] > 0) {
      const std::int64_t middle = duration_of(first_counter_ + place);
      ascending.emplace_back(std::clamp(middle, shortest_, longest_), counters_[place]);
    }
  }
  return ascending;
}

std::optional<TimeStats> DurationStats::stats() const {
  if (empty()) {
    return std::nullopt;
  }
  if (is_exact_ && runs_.size() == 1) {
    return with_equal_weights();
  }
  TimeStats stats = without_quantiles();
  const std::vector<std::pair<std::int64_t, std::int64_t>> ascending = weighted();
  std::size_t next = 0;
  std::int64_t passed = 0;  // calls of durations before `next`
  set_quantiles(stats, places_of(samples_, calls_), [&](std::int64_t place) {
    while (next + 1 < ascending.size() && passed + ascending[next].second < place) {
      passed += ascending[next].second;
      ++next;
    }
    return ascending[next].first;
  });
  return stats;
}

}  // namespace commlens
