#pragma once
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// "12 records without a size, 4 unfinished calls": what a reader left out or assumed, by reason; empty when
/// nothing.
std::string reasons_text(const std::map<std::string, std::int64_t>& reasons);

/// What the times of a trace of Provenance::averaged_times are.
constexpr std::string_view k_averages_text = "averages of several calls each, laid end to end";

/// What the numbers of a summary cover, one line for each thing that is missing.
std::string coverage_text(const Trace& trace, const Summary& summary, const TextStyle& style);
nlohmann::ordered_json coverage_json(const Trace& trace, const Coverage& coverage);

}  // namespace commlens
