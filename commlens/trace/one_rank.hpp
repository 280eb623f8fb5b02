#pragma once
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Leaves the calls of `rank` in the trace, which stays one of a job of as many ranks; of a class of ranks
/// that do the same, those of that one. False, and nothing changes, when the trace has no stream of the rank.
bool keep_rank(Trace& trace, Rank rank);

}  // namespace commlens
