#pragma once
#include "commlens/bench/replay_plan.hpp"

namespace commlens::bench {

/// Gives the calls of a rank their places in one pool, which they leave when they are waited for.
void place_buffers(RankProgram& program);

}  // namespace commlens::bench
