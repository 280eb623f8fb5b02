#include "commlens/live/duration_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace commlens {

static_assert(DurationHistogram::k_per_octave == 8);

// The bounds within a doubling are 2^(k/8); the mantissa of a duration, with 2^31 for 1, is compared with
// them.
std::size_t DurationHistogram::class_of(std::int64_t duration_ns) {
  constexpr std::array<std::uint32_t, 7> bounds = {2341847524, 2553802834, 2784941738, 3037000500,
                                                   3311872529, 3611622603, 3938502376};
  if (duration_ns < 1) {
    return 0;
  }
  const auto duration = static_cast<std::uint64_t>(duration_ns);
  const int octave = static_cast<int>(std::bit_width(duration)) - 1;
  const auto mantissa = static_cast<std::uint32_t>(duration << (63 - octave) >> 32);
  std::size_t part = 0;
  for (const std::uint32_t bound : bounds) {
    part += mantissa >= bound ? 1U : 0U;
  }
  return std::min(static_cast<std::size_t>(octave) * k_per_octave + part + 1, k_classes - 1);
}

double DurationHistogram::upper_bound_ns(std::size_t which) {
  return which + 1 >= k_classes ? std::numeric_limits<double>::infinity()
                                : std::exp2(static_cast<double>(which) / double{k_per_octave});
}

void DurationHistogram::merge(const DurationHistogram& other) {
  for (std::size_t which = 0; which < k_classes; ++which) {
    counts_[which] += other.counts_[which];
  }
  longest_ = std::max(longest_, other.longest_);
}

std::uint64_t DurationHistogram::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) {
    sum += count;
  }
  return sum;
}

std::uint64_t DurationHistogram::not_above(std::chrono::nanoseconds limit) const {
  std::uint64_t sum = 0;
  for (std::size_t which = 0; which < k_classes; ++which) {
    sum += upper_bound_ns(which) <= static_cast<double>(limit.count()) ? counts_[which] : 0;
  }
  return sum;
}

std::optional<std::chrono::nanoseconds> DurationHistogram::quantile(double share) const {
  const std::uint64_t all = total();
  if (all == 0) {
    return std::nullopt;
  }
  const auto wanted = std::max(std::uint64_t{1}, static_cast<std::uint64_t>(std::ceil(share * double(all))));
  std::uint64_t sum = 0;
  std::size_t which = 0;
  while (which + 1 < k_classes - 1 && sum + counts_[which] < wanted) {
    sum += counts_[which++];
  }
  const std::chrono::nanoseconds bound(static_cast<std::int64_t>(std::llround(upper_bound_ns(which))));
  return std::min(bound, longest_);
}

}  // namespace commlens
