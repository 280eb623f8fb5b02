#pragma once
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// "12 records without a size, 4 unfinished calls": records skipped, or assumptions made, by a reader; empty
/// if none.
std::string reasons_text(const std::map<std::string, std::int64_t>& reasons);

/// Describes the times of a trace with Provenance::averaged_times.
constexpr std::string_view k_averages_text = "averages over several calls each, placed end to end";

/// Lists what the numbers of a summary do not cover, one line each.
std::string coverage_text(const Trace& trace, const Summary& summary, const TextStyle& style);
nlohmann::ordered_json coverage_json(const Trace& trace, const Coverage& coverage);

}  // namespace commlens
