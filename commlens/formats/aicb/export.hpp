#pragma once
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::aicb {

/// Writes one rank's calls as a workload of AICB (docs/formats/aicb.md), which all ranks run with their own
/// groups: the selected rank's, else the lowest one's. Fails when the rank has no calls, and when a group's
/// axis is not known and it is not all ranks, since AICB knows groups by their axis.
Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink);

}  // namespace commlens::formats::aicb
