#pragma once
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

/// Of the steps from `first_step` on, in the window from `begin` to `end`. Where several calls move and
/// nothing is computed, the time is that of the one that was first.
RankAccount rank_account(const Plan& plan, const ClassTimeline& line, StepIndex first_step, Ticks begin,
                         Ticks end);

}  // namespace commlens
