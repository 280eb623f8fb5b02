#pragma once
#include "commlens/summary/call_tally.hpp"
#include "commlens/summary/cold_start.hpp"

namespace commlens {

/// What the calls that were added up say about starting; `tables` hold their ops.
ColdStart cold_start_of(const CallTally& tally, const Trace& tables);

}  // namespace commlens
