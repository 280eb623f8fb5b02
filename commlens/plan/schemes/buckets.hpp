#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace commlens {

/// Walks `sizes` in order and starts a new bucket once the running sum exceeds `limit` (checked after adding,
/// so a bucket may exceed it). Returns the sums. Source: deepspeed runtime/engine.py:2368 (rules B2.2).
std::vector<std::int64_t> buckets_closed_after_exceeding(std::span<const std::int64_t> sizes,
                                                         std::int64_t limit);

/// Indices of `sizes` per bucket: a bucket is closed before an item that would make it exceed `limit` (an
/// exact fit stays); an item larger than the limit sits alone. Empty buckets do not occur. Source: deepspeed
/// runtime/zero/stage_1_and_2.py:923, stage3.py:1221 (rules B3.4, B5.1).
std::vector<std::vector<std::size_t>> buckets_closed_before_exceeding(std::span<const std::int64_t> sizes,
                                                                      std::int64_t limit);

/// Walks `sizes` and closes a bucket when its sum reaches the limit: `first` for the first bucket, `other`
/// for the rest. Returns the sums. Source: PyTorch torch/csrc/distributed/c10d/reducer.cpp
/// compute_bucket_assignment_by_size.
std::vector<std::int64_t> buckets_closed_on_reaching(std::span<const std::int64_t> sizes, std::int64_t first,
                                                     std::int64_t other);

/// A run of consecutive elements that belong to one partition.
struct PartitionSlice {
  std::int64_t partition = 0;
  std::int64_t count = 0;
};

/// Cuts [offset, offset + count) at the borders of equal partitions of `partition_size`.
std::vector<PartitionSlice> cut_at_partitions(std::int64_t offset, std::int64_t count,
                                              std::int64_t partition_size);

}  // namespace commlens
