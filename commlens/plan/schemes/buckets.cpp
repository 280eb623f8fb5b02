#include "commlens/plan/schemes/buckets.hpp"

#include <algorithm>
#include <utility>

namespace commlens {

namespace {

/// The sizes of buckets that close with the element that fills them.
template <typename IsFull>
std::vector<std::int64_t> bucket_sums(std::span<const std::int64_t> sizes, IsFull is_full) {
  std::vector<std::int64_t> sums;
  std::int64_t sum = 0;
  bool is_open = false;
  for (const std::int64_t size : sizes) {
    sum += size;
    is_open = !is_full(sum, sums);
    if (!is_open) {
      sums.push_back(std::exchange(sum, 0));
    }
  }
  if (is_open) {
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace

std::vector<std::int64_t> buckets_closed_after_exceeding(std::span<const std::int64_t> sizes,
                                                         std::int64_t limit) {
  return bucket_sums(sizes, [&](std::int64_t sum, const auto&) { return sum > limit; });
}

std::vector<std::vector<std::size_t>> buckets_closed_before_exceeding(std::span<const std::int64_t> sizes,
                                                                      std::int64_t limit) {
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t sum = 0;
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    if (buckets.empty() || sum + sizes[index] > limit) {
      buckets.emplace_back();
      sum = 0;
    }
    buckets.back().push_back(index);
    sum += sizes[index];
  }
  return buckets;
}

std::vector<std::int64_t> buckets_closed_on_reaching(std::span<const std::int64_t> sizes, std::int64_t first,
                                                     std::int64_t other) {
  return bucket_sums(
      sizes, [&](std::int64_t sum, const auto& before) { return sum >= (before.empty() ? first : other); });
}

std::vector<PartitionSlice> cut_at_partitions(std::int64_t offset, std::int64_t count,
                                              std::int64_t partition_size) {
  std::vector<PartitionSlice> slices;
  const std::int64_t end = offset + count;
  while (offset < end) {
    const std::int64_t partition = offset / partition_size;
    const std::int64_t stop = std::min(end, (partition + 1) * partition_size);
    slices.push_back({partition, stop - offset});
    offset = stop;
  }
  return slices;
}

}  // namespace commlens
