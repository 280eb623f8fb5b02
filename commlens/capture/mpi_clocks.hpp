#pragma once
#include <chrono>

#include "commlens/capture/mpi_api.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

/// The offset of this rank's clock from that of rank 0 now. All ranks of `world` call it together.
///
/// Ranks of one machine share the kernel's clock, so each compares itself with that. Between machines, the
/// first rank of each exchanges messages with rank 0: it asks at t0, gets rank 0's time T, and has the answer
/// at t1, so its offset is T - (t0 + t1) / 2, off by at most (t1 - t0) / 2; the quickest of several exchanges
/// counts. Source: F. Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989.
ClockPoint clock_point(MPI_Comm world);

}  // namespace commlens::capture
