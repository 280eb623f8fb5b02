#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "commlens/base/dtype.hpp"

namespace commlens::bench {

/// The value of rank `rank` at `position` of the global buffer, 0 to 63: without a period below 2^32, so that
/// exchanged ranks and shifted blocks are seen. With 32-bit arithmetic
///   x = 2654435761 position + 2246822519 rank + 374761393;  x ^= x >> 15;  x *= 2246822519;
///   x ^= x >> 13;  x *= 3266489917;  x ^= x >> 16;  v = x mod 64
/// (the multipliers and the finishing steps of xxHash32).
std::int64_t pattern_value(std::uint64_t position, std::uint64_t rank);

/// The data of one call in a group of `ranks`. A call of another `iteration` has other values, so that a
/// result that was there before is seen.
struct Pattern {
  DType dtype = DType::fp32;
  std::int64_t ranks = 1;
  std::int64_t iteration = 0;
  bool is_summed = false;  // then values are small enough for every partial sum to be exact in `dtype`

  std::int64_t value(std::int64_t position, std::int64_t rank) const;
  /// The sum over all ranks.
  std::int64_t sum(std::int64_t position) const;
};

/// Writes `value(first_position + k)` of one rank as elements k of the buffer.
void fill(const Pattern& pattern, std::int64_t rank, std::int64_t first_position, std::span<std::byte> to);

/// Elements that are not what was expected.
struct Wrong {
  std::int64_t elements = 0;
  std::int64_t first = -1;  // the place of the first of them
};

/// Compares elements with the values of `rank`, or with the sums of all ranks (rank -1), from a position on.
Wrong compare(const Pattern& pattern, std::int64_t rank, std::int64_t first_position,
              std::span<const std::byte> found);

/// Overwrites an output with 0xFF bytes: not a number, or -1, or 255, which no pattern has.
void spoil(std::span<std::byte> output);

}  // namespace commlens::bench
