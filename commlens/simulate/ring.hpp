#pragma once
#include <cstdint>

#include "commlens/simulate/coefficients.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// A group of ranks, and how many of them are in each domain of fast links.
struct RingGroup {
  std::int64_t ranks = 1;
  std::int64_t in_domain = 1;
};

/// The group of `ranks` that are `stride` apart in the order of the job's ranks.
RingGroup ring_group(const RunHardware& hardware, std::int64_t ranks, std::int64_t stride);

/// Seconds of an all_gather or a reduce_scatter of `bytes` (the whole), half of an all_reduce:
/// (n-1)/n of the bytes over the links of a domain, or over all network links of the group's members there,
/// and a latency: fixed inside a domain, of each further domain outside.
double ring_seconds(const RunHardware& hardware, const Coefficients& with, RingGroup group, double bytes);

/// Seconds of an exchange in which a rank sends `bytes` in all, evenly to all ranks of the group.
double exchange_seconds(const RunHardware& hardware, const Coefficients& with, RingGroup group, double bytes);

/// Seconds of one message to a neighbour, in the domain or in another.
double message_seconds(const RunHardware& hardware, const Coefficients& with, bool in_domain, double bytes);

}  // namespace commlens
