#pragma once
#include <algorithm>
#include <map>
#include <utility>

#include "commlens/comm/axis.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {

/// What a rank does in a window of time, in ticks.
struct RankAccount {
  using Key = std::pair<CommKind, Axis>;
  struct Calls {
    double calls = 0;
    double moving = 0;
    double exposed = 0;
  };
  double compute = 0;
  double exposed = 0;  // calls move and nothing is computed
  double waiting = 0;  // neither
  std::map<Key, Calls> calls;
};

/// From one moment to another.
struct TimeWindow {
  Ticks begin = 0;
  Ticks end = 0;
  /// What of an interval is in it.
  double part_of(Ticks from, Ticks to) const {
    return static_cast<double>(std::clamp(to, begin, end) - std::clamp(from, begin, end));
  }
};

/// What the rank does in the window; `calls` counts those of the whole line. Where several calls move and
/// nothing is computed, the time is that of the one that was first. Calls of one rank are left out.
RankAccount rank_account(const Plan& plan, const ClassTimeline& line, const TimeWindow& window);

}  // namespace commlens
