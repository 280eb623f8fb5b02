#include "commlens/search/timed_space.hpp"

#include <algorithm>

#include "commlens/base/check.hpp"

namespace commlens {

const TimedSpace& space_of(std::span<const TimedSpace> spaces, DataParallelKind kind) {
  COMMLENS_CHECK(!spaces.empty(), "a search has a space");
  const auto found = std::find_if(spaces.begin(), spaces.end(), [&](const TimedSpace& each) {
    return std::find(each.space.kinds.begin(), each.space.kinds.end(), kind) != each.space.kinds.end();
  });
  return found == spaces.end() ? spaces.front() : *found;
}

TrainingRun run_in_space(TrainingRun run, const TimedSpace& space) {
  if (run.family == space.base.family) {
    return run;
  }
  RunBehaviour behaviour = space.base.behaviour;
  behaviour.recompute = run.behaviour.recompute;
  behaviour.overlaps_tensor = run.behaviour.overlaps_tensor;
  behaviour.overlaps_point_to_point = run.behaviour.overlaps_point_to_point;
  behaviour.overlaps_exchange = run.behaviour.overlaps_exchange;
  run.behaviour = behaviour;
  run.family = space.base.family;
  run.priors = space.base.priors;
  set_kind(run, space.space, {run.layout.data_kind, run.layout.shard_group});
  return run;
}

}  // namespace commlens
