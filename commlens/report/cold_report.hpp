#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/cold_start.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The cold iteration beside the warm ones, per op and group; a line when there is nothing to compare. Empty
/// when the trace has no iterations.
std::string cold_text(const Trace& trace, const ColdStart& cold, const TextStyle& style);

/// First calls beside later ones alike; empty when none of them has a time.
std::string first_calls_text(const Trace& trace, const ColdStart& cold, const TextStyle& style);

/// Both.
nlohmann::ordered_json cold_json(const Trace& trace, const ColdStart& cold);

}  // namespace commlens
