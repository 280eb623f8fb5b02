#include "commlens/summary/histogram.hpp"

#include <bit>
#include <utility>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

void increase(std::chrono::nanoseconds& sum, std::chrono::nanoseconds by) {
  sum = std::chrono::nanoseconds(saturating_sum(sum.count(), by.count()));
}

void increase(std::int64_t& sum, std::int64_t by) { sum = saturating_sum(sum, by); }

void increase(Bytes& sum, Bytes by) { sum = saturating_sum(sum, by); }

}  // namespace

void HistogramBuilder::add(Bytes size, const SizeBin& calls) {
  const Bytes lower{static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size.value)))};
  SizeBin& bin = bins_[lower];
  bin.lower = lower;
  increase(bin.calls, calls.calls);
  increase(bin.message, calls.message);
  increase(bin.timed_calls, calls.timed_calls);
  increase(bin.time, calls.time);
  increase(histogram_.calls, calls.calls);
  increase(histogram_.message, calls.message);
  increase(histogram_.timed_calls, calls.timed_calls);
  increase(histogram_.time, calls.time);
  if (size < histogram_.small_limit) {
    increase(histogram_.small_calls, calls.calls);
    increase(histogram_.small_message, calls.message);
    increase(histogram_.small_time, calls.time);
  }
}

SizeHistogram HistogramBuilder::take() {
  for (const auto& [lower, bin] : bins_) {
    histogram_.bins.push_back(bin);
  }
  return std::move(histogram_);
}

}  // namespace commlens
