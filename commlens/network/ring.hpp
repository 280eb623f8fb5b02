#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/base/units.hpp"

namespace commlens {

/// A hop of a ring: what a message takes from a rank to its right neighbour.
struct RingHop {
  double latency_seconds = 0;  // alpha
  BytesPerSecond bandwidth;    // beta
};

/// Seconds that a chunk takes over the hop: alpha + c/beta.
double hop_seconds(const RingHop& hop, double chunk_bytes);

/// Steps of a ring: 2 (n - 1) of an all_reduce, n - 1 of an all_gather or a reduce_scatter.
std::int64_t ring_all_reduce_steps(std::int64_t ranks);
std::int64_t ring_gather_steps(std::int64_t ranks);

/// Seconds of an all_reduce of `bytes` a rank over a ring of equal hops, all ranks starting together:
/// 2 (n - 1) (alpha + bytes / n / beta).
double ring_all_reduce_seconds(Bytes bytes, std::int64_t ranks, const RingHop& hop);

/// When each rank of a ring is done, in seconds. In each step each rank passes a chunk on to its right
/// neighbour, which takes it when both are ready: r_i = max(r_i, r_left) + the seconds of the hop from the
/// left.
///
/// `starts`: when each rank is ready, in the order of the ring. `seconds_from_left`: of the hop into each
/// rank, or one number for all hops. O(ranks × steps), memory for 2 × ranks numbers.
///
/// With equal hops and at least n - 1 steps it is max(starts) + steps × hop but for rounding: a ring waits
/// for its last rank.
std::vector<double> staggered_ring_ends(std::span<const double> starts,
                                        std::span<const double> seconds_from_left, std::int64_t steps);

}  // namespace commlens
