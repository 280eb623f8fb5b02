#pragma once
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::goal {

/// Writes a GOAL schedule in text, the input of LogGOPSim's txt2bin and of ATLAHS (docs/formats/goal.md):
/// collectives as messages of stated algorithms, calls of a rank one after the other, the time between calls
/// of measured traces as computing. Fails when a call's ranks or root are not known, when ranks that take
/// part have no calls in the trace or fewer than the others, and beyond 10^9 operations.
Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink);

}  // namespace commlens::formats::goal
