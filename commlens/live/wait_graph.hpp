#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/live/job_progress.hpp"

namespace commlens {

/// One call in which ranks wait for others. Ranks are rows of JobProgress::ranks.
struct WaitPoint {
  SeenCall call;                         // as the first of those that wait made it
  std::vector<std::size_t> waiting;      // inside of it
  std::vector<std::size_t> on_device{};  // … and known to have begun it on their devices
  std::vector<std::size_t> missing;      // that it needs and that have not entered it; empty for takes_any()
  std::vector<std::size_t> unknown;      // members whose calls are not known
  /// One of all other ranks is enough.
  bool takes_any() const { return call.part == CallPart::receive_any; }
};

/// Who waits for whom. A rank waits in the calls under way that it cannot leave: the blocking ones or, if it
/// is in none of these, all requests.
struct WaitGraph {
  struct Node {
    std::vector<std::size_t> points;      // in which it waits for others
    std::vector<std::size_t> missing_in;  // whose `missing` has it
    std::vector<std::size_t> inside;      // in which it is, and that all members have entered
    /// Whether it waits for requests alone, perhaps: it may as well compute while they are under way.
    bool has_requests_alone = false;
    bool waits() const { return !points.empty(); }
  };
  std::vector<WaitPoint> points;
  std::vector<Node> ranks;              // as JobProgress::ranks
  std::vector<std::size_t> any_points;  // that take any rank, at most one a rank

  /// Whether another rank waits for this one, perhaps for it among others.
  bool is_waited_for(std::size_t rank) const;
  /// The ranks that are not there; of a receive from any rank those that might send.
  std::vector<std::size_t> missing_of(const WaitPoint& point) const;
};

WaitGraph wait_graph(const JobProgress& job);

/// Ranks that wait for each other in a circle, each needing another one of them; rows, ascending. Empty when
/// there is none. Ranks that only wait for these are not among them.
std::vector<std::size_t> knot_of(const JobProgress& job, const WaitGraph& graph);

/// Ranks that wait for `rank`: directly, and through others too.
struct Waiters {
  std::int64_t directly = 0;
  std::int64_t in_all = 0;
};
Waiters waiters_of(const WaitGraph& graph, std::size_t rank);

}  // namespace commlens
