#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The number of an iteration for people; "unknown" where the trace does not say.
std::string iteration_text(Iteration iteration);
/// The same for JSON: null where it is unknown.
nlohmann::ordered_json iteration_json(Iteration iteration);
/// The same of a table.
Cell iteration_cell(Iteration iteration);

}  // namespace commlens
