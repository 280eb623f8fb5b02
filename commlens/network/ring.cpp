#include "commlens/network/ring.hpp"

#include <algorithm>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// One step of equal hops; `to` and `from` are different, so that the loop is vectorised.
void step_equal(std::span<const double> from, std::span<double> to, double seconds) {
  to[0] = std::max(from[0], from[from.size() - 1]) + seconds;
  for (std::size_t rank = 1; rank < from.size(); ++rank) {
    to[rank] = std::max(from[rank], from[rank - 1]) + seconds;
  }
}

void step_unequal(std::span<const double> from, std::span<double> to, std::span<const double> seconds) {
  to[0] = std::max(from[0], from[from.size() - 1]) + seconds[0];
  for (std::size_t rank = 1; rank < from.size(); ++rank) {
    to[rank] = std::max(from[rank], from[rank - 1]) + seconds[rank];
  }
}

}  // namespace

double hop_seconds(const RingHop& hop, double chunk_bytes) {
  return hop.latency_seconds + chunk_bytes / hop.bandwidth.value;
}

std::int64_t ring_all_reduce_steps(std::int64_t ranks) { return 2 * (ranks - 1); }

std::int64_t ring_gather_steps(std::int64_t ranks) { return ranks - 1; }

double ring_all_reduce_seconds(Bytes bytes, std::int64_t ranks, const RingHop& hop) {
  COMMLENS_CHECK(ranks > 0, "a ring has ranks");
  const double chunk = static_cast<double>(bytes.value) / static_cast<double>(ranks);
  return static_cast<double>(ring_all_reduce_steps(ranks)) * hop_seconds(hop, chunk);
}

std::vector<double> staggered_ring_ends(std::span<const double> starts,
                                        std::span<const double> seconds_from_left, std::int64_t steps) {
  COMMLENS_CHECK(!starts.empty(), "a ring has ranks");
  COMMLENS_CHECK(seconds_from_left.size() == 1 || seconds_from_left.size() == starts.size(),
                 "each hop has its seconds, or all have the same");
  std::vector<double> ready(starts.begin(), starts.end());
  std::vector<double> next(starts.size());
  for (std::int64_t step = 0; step < steps; ++step) {
    if (seconds_from_left.size() == 1) {
      step_equal(ready, next, seconds_from_left.front());
    } else {
      step_unequal(ready, next, seconds_from_left);
    }
    ready.swap(next);
  }
  return ready;
}

}  // namespace commlens
