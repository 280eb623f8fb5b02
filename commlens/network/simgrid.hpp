#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/network/max_min.hpp"

namespace commlens {

/// A link for SimGrid.
struct SimgridLink {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// Equal messages for SimGrid, from one host to another over given links. Messages of one pair of hosts all
/// take the same links.
struct SimgridFlow {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::vector<LinkId> links;
  double bytes = 0;
  std::int64_t messages = 1;
  double start_seconds = 0;  // after the start of its wave
};

/// Flows that SimGrid plays: each wave starts when the one before has ended.
struct SimgridJob {
  std::vector<SimgridLink> links;
  std::vector<std::vector<SimgridFlow>> waves;
};

/// Most hosts that SimGrid is asked to play: beyond, minutes become hours (docs/contention.md).
constexpr std::int64_t k_simgrid_hosts = 256;

/// Plays the flows through SimGrid (model CM02 without cross traffic and without a limit by TCP's window), as
/// an oracle for FlowNetwork: seconds at which each flow ends, wave after wave. CM02 shares links in inverse
/// proportion to the latency of the way.
///
/// SimGrid has one engine a process and ends the process where it is wrong, so it runs in a child process,
/// which loads libcommlens-simgrid.so: it can be called again and again, not from several threads at once.
/// Fails on more than k_simgrid_hosts hosts, where the module is not there, and where the child does not come
/// back with times.
Result<std::vector<double>> simgrid_finish_times(const SimgridJob& job);

/// What libcommlens-simgrid.so does; its entry is `commlens_simgrid_finish_times`.
using SimgridFunction = void (*)(const SimgridJob& job, std::vector<double>& ends);

}  // namespace commlens
