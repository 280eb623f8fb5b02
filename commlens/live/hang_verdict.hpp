#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "commlens/live/job_progress.hpp"
#include "commlens/live/wait_graph.hpp"

namespace commlens {

/// Why a job does not go on, by the numbers of the calls that its ranks have entered; no clock is looked at.
enum class HangVerdict : std::uint8_t {
  none,        // no rank waits for another
  mismatch,    // members of a communicator made different calls as the same one
  deadlock,    // ranks wait for each other in a circle
  missing,     // ranks wait for some that are in no call
  all_inside,  // all members have entered the call: it is the library, the network or a device; culprits are
               // those on whose devices it has not begun, where it has on others
  unmatched    // ranks are inside of calls whose other ends are not known
};
std::string_view name_of(HangVerdict verdict);

/// A rank that the others wait for, or that differs from them.
struct HangCulprit {
  std::size_t rank = 0;            // row of JobProgress::ranks
  std::optional<Waiters> waiters;  // of the first k_most_counted; counting takes a walk each
  static constexpr std::size_t k_most_counted = 1000;
  std::optional<std::size_t> waits_in;  // deadlock: the point
};

struct HangFinding {
  HangVerdict verdict = HangVerdict::none;
  std::vector<HangCulprit> culprits;  // by rank
  /// The call at which the job is stuck: that of most waiting ranks; row of WaitGraph::points.
  std::optional<std::size_t> point;
  std::optional<CallDifference> difference;  // mismatch
  std::int64_t waiting = 0;                  // ranks that wait
  /// Mismatch: no side has more ranks than the others, so all of them are named.
  bool is_even = false;
  /// One of the culprits is enough: only receives from any rank wait for them.
  bool is_any_of = false;
  /// Deadlock: a rank of the circle has requests under way alone, and may compute instead of waiting for
  /// them.
  bool may_compute = false;
};

HangFinding find_hang(const JobProgress& job, const WaitGraph& graph);

}  // namespace commlens
