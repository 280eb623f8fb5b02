#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/live/job_view.hpp"

namespace commlens {

/// What the follower of one node says of the job's ranks there: enough for a NodesFollower to make one view
/// of all nodes. Times in it are ages, so clocks of machines are not compared.
struct NodeState {
  std::string node;                     // the name of the machine
  std::string follower;                 // the process that follows it there: another one after a restart
  std::int64_t number = 0;              // of the states of this follower: another one for each
  std::chrono::nanoseconds interval{};  // the next one comes after about this
  /// Not of the text: how old it was when it was read; 0: it had just come.
  std::chrono::nanoseconds age{};
  /// Its `ranks` are those that have files there, and `hang.job` and `hang.processes` have a row for each of
  /// them in the same order. Alerts are those that ranks elsewhere do not change: volume, slower. What is
  /// compared there (`prediction`, `baseline`), totals and the graph of waits are not in it.
  JobView view;
};

/// Schema commlens.node/1 (docs/formats/node.md), on one line.
std::string node_state_text(const NodeState& state);

/// Fails for what is no such text; numbers in it are checked, so that the state can be used.
Result<NodeState> node_state_from(std::string_view text);

/// The state that the view of a follower gives.
NodeState node_state_of(const JobView& view, std::string node, std::chrono::nanoseconds interval);

}  // namespace commlens
