#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One trace of several files of the same job (one per rank, say). Fails when two hold calls of the same
/// rank, or have different layouts. `names` are the files, for messages.
Result<Trace> merged(std::vector<Trace> traces, const std::vector<std::string>& names);

}  // namespace commlens
