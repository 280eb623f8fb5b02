#pragma once
#include <cstdint>
#include <functional>

#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// The monotonic clock of this rank's machine, in nanoseconds.
std::int64_t monotonic_ns();

/// How this rank's clock relates to that of the first rank.
struct ClockOffset {
  std::int64_t offset_ns = 0;  // what to add to this rank's clock to get the first rank's
  std::int64_t error_ns = 0;   // by which it may be wrong
};

/// Whether every rank reads the same clock: all were started by one boot of one kernel, in one time
/// namespace. Collective.
bool share_a_clock(Communicator& world);

/// Measures the offset: each rank asks one that already knows its own (a binary tree from rank 0), several
/// times; the answer with the shortest round trip counts, and half of that trip bounds its error. Errors add
/// up along the tree. Collective. `clock`: this rank's.
/// Source of the method: S. Hunold, A. Carpen-Amarie, "Hierarchical Clock Synchronization in MPI", CLUSTER
/// 2018; F. Cristian, Distributed Computing 3 (1989) 146-158.
ClockOffset measured_offset(Communicator& world, const std::function<std::int64_t()>& clock);

/// Offsets before and after a while; in between they change at a constant rate.
struct ClockDrift {
  std::int64_t first_at_ns = 0;  // by this rank's clock
  ClockOffset first;
  std::int64_t last_at_ns = 0;
  ClockOffset last;

  /// A time of this rank's clock by the first rank's.
  std::int64_t corrected(std::int64_t own_ns) const;
};

}  // namespace commlens::bench
