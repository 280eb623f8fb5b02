#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/units.hpp"
#include "commlens/report/table.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Rows of a summary, and what they are shown with.
struct SummaryTables {
  const Trace& trace;  // names
  const std::vector<SummaryRow>& rows;
  std::int64_t ranks = 0;              // that made the calls
  bool by_node = false;                // show the part of the wire bytes between nodes
  std::optional<BytesPerSecond> link;  // what a link carries, to compare bus bandwidth with
};

/// Calls, sizes, message and wire bytes of each row, and its share of the message bytes.
std::string volumes_text(const SummaryTables& tables, const TextStyle& style);

/// Times and bandwidths of the rows that have times, and a line that says how exact the quantiles are, if
/// there are any; empty when no row has times.
std::string times_text(const SummaryTables& tables, const TextStyle& style);

/// Everything of each row; keys end in their unit and scope.
nlohmann::ordered_json summary_rows_json(const SummaryTables& tables);
std::string summary_rows_csv(const SummaryTables& tables);

/// Every time of `stats`, in nanoseconds; null when absent.
nlohmann::ordered_json time_json(const std::optional<TimeStats>& stats);

}  // namespace commlens
