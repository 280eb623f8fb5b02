#include "commlens/summary/histogram.hpp"

#include <bit>
#include <map>

#include "commlens/summary/sums.hpp"

namespace commlens {

SizeHistogram size_histogram(const std::vector<BreakdownRow>& rows, Bytes small_limit) {
  SizeHistogram histogram;
  histogram.small_limit = small_limit;
  std::map<Bytes, SizeBin> bins;
  for (const BreakdownRow& row : rows) {
    if (row.kind == CommKind::barrier) {
      continue;
    }
    const auto size = static_cast<std::uint64_t>(row.message.value);
    const Bytes lower{static_cast<std::int64_t>(std::bit_floor(size))};
    const std::int64_t calls = saturating_product(row.calls, row.ranks.count());
    const Bytes message = saturating_product(row.total_message, row.ranks.count());
    SizeBin& bin = bins.try_emplace(lower, SizeBin{lower, 0, {}}).first->second;
    bin.calls = saturating_sum(bin.calls, calls);
    bin.message = saturating_sum(bin.message, message);
    histogram.calls = saturating_sum(histogram.calls, calls);
    histogram.message = saturating_sum(histogram.message, message);
    if (row.message < small_limit) {
      histogram.small_calls = saturating_sum(histogram.small_calls, calls);
      histogram.small_message = saturating_sum(histogram.small_message, message);
    }
  }
  for (const auto& [lower, bin] : bins) {
    histogram.bins.push_back(bin);
  }
  return histogram;
}

}  // namespace commlens
