#pragma once
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The trace with the axes that its groups have on `mesh`, that of its job, where it does not name them
/// itself: recorders see ranks, not what a framework calls them. The same where the job has another number of
/// ranks, or the trace has a mesh of its own.
Trace with_named_axes(Trace trace, const Mesh& mesh);

}  // namespace commlens
