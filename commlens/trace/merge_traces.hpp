#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One trace of several files of the same job (one per rank, say). Fails when two hold calls of the same
/// rank, or have different layouts. `names` are the files, for messages. Hidden groups of the result are
/// resolved.
Result<Trace> merged(std::vector<Trace> traces, const std::vector<std::string>& names);

/// Gives each hidden group its ranks where the trace shows them: when collectives on the group of that name
/// were called by exactly as many ranks as it has members. Several groups of one name stay as they are.
Trace with_hidden_groups_resolved(Trace trace);

}  // namespace commlens
