#pragma once
#include <chrono>

#include "commlens/app/hang.hpp"
#include "commlens/app/watch.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// As hang(), of a job that is seen by the states of its nodes: `job` says where they are (followed_at()).
/// One that seems stuck is looked at once more after `unchanged_for`. Fails as watch() of a single look does.
Result<HangResult> hang_of_nodes(WatchRequest job, std::chrono::milliseconds unchanged_for);

}  // namespace commlens
