#pragma once
#include "commlens/base/result.hpp"
#include "commlens/bench/replay_plan.hpp"

namespace commlens::bench {

/// Walks through the steps of all ranks as they would be made if no call took time and no message were
/// buffered, and fails where ranks wait for each other in a circle. In a circle with a send the send is
/// waited for later (a library that buffers it has completed it at once, and others must not stop);
/// `late_waits`: so are receives and collective calls. ReplayPlan::later_waits counts them.
Result<void> settle_waits(ReplayPlan& plan, bool late_waits);

}  // namespace commlens::bench
