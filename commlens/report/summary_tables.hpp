#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/base/units.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Rows of a summary, and how they are shown.
struct SummaryTables {
  const Trace& trace;  // names
  const std::vector<SummaryRow>& rows;
  std::int64_t ranks = 0;                 // that made the calls
  bool by_node = false;                   // show the part of the wire bytes between nodes
  std::optional<BytesPerSecond> link;     // of a link, to compare bus bandwidth with
  bool by_size = false;                   // all calls of a row have messages of one size
  std::map<NameId, std::string> sites{};  // how those of rows are shown
};

/// Calls, sizes, message and wire bytes of each row, and its share of the message bytes.
std::string volumes_text(const SummaryTables& tables, const TextStyle& style);

/// Times and bandwidths of the rows that have times, and a line that says how exact the quantiles are, if
/// there are any; empty when no row has times.
std::string times_text(const SummaryTables& tables, const TextStyle& style);

/// What a call of each message size takes, and what it reaches: exact sizes, calls, quantiles, bandwidth.
std::string sizes_text(const SummaryTables& tables, const TextStyle& style);

/// Calls, bytes and times of each call site.
std::string call_sites_text(const SummaryTables& tables, const TextStyle& style);

/// Everything of each row.
Table summary_table(const SummaryTables& tables);

/// An op, its original name and its group: the first columns of many tables.
std::vector<Column> call_columns();
std::vector<Cell> call_cells(const Trace& trace, CommKind kind, NameId name, Axis axis, std::int64_t size);

/// Every time of calls, as "KEYp50_ns" and the like; in JSON within `object`.
std::vector<Column> time_columns(const std::string& key, const std::string& object);
std::vector<Cell> time_cells(const std::optional<TimeStats>& stats);
/// The same as an object; null when absent.
nlohmann::ordered_json time_json(const std::optional<TimeStats>& stats);

}  // namespace commlens
