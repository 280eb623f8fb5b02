#pragma once
#include "commlens/summary/call_tally.hpp"
#include "commlens/summary/cold_start.hpp"

namespace commlens {

/// The cold start of the summed calls; `tables` hold their ops.
ColdStart cold_start_of(const CallTally& tally, const Trace& tables);

}  // namespace commlens
