#pragma once
#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>

#include "commlens/base/sums.hpp"
#include "commlens/live/work_blocks.hpp"

// By which of its communicators a rank is judged.
namespace commlens {

/// By fewer blocks a rank is judged only where it has nothing else.
constexpr std::int64_t k_enough_blocks = 8;
/// One block does not show whether that lasts.
constexpr std::int64_t k_least_blocks = 2;

/// What is known of a rank on one of its communicators: it is judged by the largest.
struct LateBasis {
  bool has_enough_blocks = false;
  std::int64_t members = 0;  // of the communicator
  double share = 0;          // of the blocks, in which the rank was slow
  friend auto operator<=>(const LateBasis&, const LateBasis&) = default;
};

/// Whether a communicator is still used at `now_ns`, by the time of a rank, which goes on while it makes
/// calls of any communicator: twice k_span after its last block or call, or four times the length of its
/// blocks, since a block is known once the next one is, too.
inline bool is_in_use(std::int64_t last_ns, std::int64_t block_ns, std::int64_t now_ns) {
  constexpr std::int64_t span_ns = std::chrono::nanoseconds(LatestBlocks::k_span).count();
  return (now_ns - last_ns) / 2 <= std::max(span_ns, saturating_sum(block_ns, block_ns));
}

}  // namespace commlens
