#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/cold_start.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The cold iteration compared with the warm ones, per op and group; one line if there is nothing to compare.
/// Empty if the trace has no iterations.
std::string cold_text(const Trace& trace, const ColdStart& cold, const TextStyle& style);

/// First calls compared with later calls of the same op, sizes and group; empty if none of them has a time.
std::string first_calls_text(const Trace& trace, const ColdStart& cold, const TextStyle& style);

/// Both.
nlohmann::ordered_json cold_json(const Trace& trace, const ColdStart& cold);

}  // namespace commlens
