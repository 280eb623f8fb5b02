#pragma once
#include <string>

#include "commlens/base/table.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The number of an iteration for people; "unknown" if the trace has none.
std::string iteration_text(Iteration iteration);
/// The same as a cell; no value if the trace has none.
Cell iteration_cell(Iteration iteration);

}  // namespace commlens
