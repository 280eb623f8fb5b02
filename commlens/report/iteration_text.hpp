#pragma once
#include <string>

#include "commlens/base/table.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The number of an iteration for people; "unknown" where the trace does not say.
std::string iteration_text(Iteration iteration);
/// The same of a table; no value where the trace does not say.
Cell iteration_cell(Iteration iteration);

}  // namespace commlens
