#include "commlens/report/summary_tables.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/sums.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

Cell wire_cell(const SummaryRow& row) {
  Cell cell = row.knows_wire() ? Cell(row.wire) : Cell();
  return row.group_size == 1 ? std::move(cell).shown("no traffic") : or_dash(std::move(cell));
}

/// Exact where it is the size of every call.
Cell smallest_cell(const SummaryTables& tables, const SummaryRow& row) {
  return tables.by_size ? Cell(row.smallest).shown(with_commas(row.smallest.value)) : Cell(row.smallest);
}

/// Empty where the trace does not say it.
Cell site_cell(const SummaryTables& tables, const SummaryRow& row) {
  if (!row.site || *row.site == NameId{}) {
    return or_dash(Cell());
  }
  const auto found = tables.sites.find(*row.site);
  return found == tables.sites.end() ? tables.trace.names.text(*row.site) : found->second;
}

std::optional<double> link_share(const SummaryTables& tables, const SummaryRow& row) {
  if (!tables.link || !row.bus_bandwidth) {
    return std::nullopt;
  }
  return row.bus_bandwidth->value / tables.link->value;
}

/// A line on the accuracy of the rows' quantiles, if they have any.
std::string exactness_text(const std::vector<SummaryRow>& rows) {
  if (std::none_of(rows.begin(), rows.end(),
                   [](const SummaryRow& row) { return row.time && row.time->p50; })) {
    return "";
  }
  const auto is_inexact = [](const SummaryRow& row) { return row.time && !row.time->exact; };
  const auto inexact = std::count_if(rows.begin(), rows.end(), is_inexact);
  if (inexact == 0) {
    return "P50 and P95 are of one call, and exact\n";
  }
  return fmt::format(
      "P50 and P95 are of one call; those marked ~ ({} of {} rows) come from a histogram, within {:.0f} %\n",
      inexact, rows.size(), 100 * k_quantile_error);
}

std::string interval_text(const TimeStats& time) {
  return time.has_interval ? fmt::format("{} to {}", to_text(time.p50_low), to_text(time.p50_high)) : "-";
}

Bytes message_of(const std::vector<SummaryRow>& rows) {
  Bytes message;
  for (const SummaryRow& row : rows) {
    message = saturating_sum(message, row.message);
  }
  return message;
}

nanoseconds time_of(const std::vector<SummaryRow>& rows) {
  std::int64_t time = 0;
  for (const SummaryRow& row : rows) {
    time = saturating_sum(time, row.time ? row.time->total.count() : 0);
  }
  return nanoseconds(time);
}

std::vector<Column> row_columns() {
  return concatenated(
      call_columns(),
      columns({"site", "calls_all_ranks", "smallest_message_bytes", "largest_message_bytes",
               "message_bytes_all_ranks", "wire_bytes_all_ranks", "wire_inter_node_bytes_all_ranks", "phase",
               "iteration"}),
      time_columns("", "time"),
      columns({"algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s", "bus_share_of_link",
               "wire_bytes_mean_per_rank", "share_of_message_bytes", "share_of_time"}));
}

Cells row_cells(const SummaryTables& tables, const SummaryRow& row, Bytes message, nanoseconds time) {
  const bool knows_mean = row.knows_wire() && tables.ranks > 0;
  return concatenated(
      call_cells(tables.trace, row.kind, row.name, row.axis, row.group_size),
      Cells{site_cell(tables, row), row.calls, smallest_cell(tables, row), row.largest, row.message,
            wire_cell(row), or_dash(row.knows_wire_inter_node() ? Cell(row.wire_inter_node) : Cell()),
            row.phase ? Cell(name_of(*row.phase)) : Cell(),
            row.iteration ? iteration_cell(*row.iteration) : Cell()},
      time_cells(row.time),
      Cells{
          or_dash(row.algorithm_bandwidth), or_dash(row.bus_bandwidth), or_dash(link_share(tables, row)),
          knows_mean ? Cell(static_cast<double>(row.wire.value) / static_cast<double>(tables.ranks)) : Cell(),
          share_cell(row.message.value, message.value),
          row.time && row.time->p50 ? share_cell(row.time->total.count(), time.count()) : Cell()});
}

}  // namespace

std::vector<Column> call_columns() {
  return columns({"op", Column{.key = "name", .in_text = false, .optional = true}, data("axis"),
                  Column{.key = "group_size", .title = "group", .align = Column::Align::left}});
}

std::vector<Cell> call_cells(const Trace& trace, CommKind kind, NameId name, Axis axis, std::int64_t size) {
  return {Cell(name_of(kind)).shown(op_text(trace, kind, name)),
          kind == CommKind::other ? Cell(trace.names.text(name)) : Cell(), name_of(axis),
          Cell(size).shown(group_text(kind, axis, size))};
}

std::vector<Column> time_columns(const std::string& key, const std::string& object) {
  std::vector<Column> list =
      columns({"timed_calls_all_ranks", "time_ns_all_ranks", "p50_ns", "p50_low_ns", "p50_high_ns", "p95_ns",
               "exact_quantiles", "mean_ns", "shortest_ns", "longest_ns"});
  for (Column& column : list) {
    column.json = object.empty() ? "" : object + "." + column.key;
    column.key = key + column.key;
  }
  return list;
}

std::vector<Cell> time_cells(const std::optional<TimeStats>& stats) {
  if (!stats) {
    std::vector<Cell> cells(time_columns("", "").size());
    cells.front() = 0;
    return cells;
  }
  const std::string about = stats->exact ? "" : "~";
  const auto end = [&](nanoseconds time) { return stats->has_interval ? Cell(time) : Cell(); };
  const auto quantile = [&](const std::optional<nanoseconds>& time) {
    return time ? Cell(*time).shown(about + to_text(*time)) : Cell();
  };
  return {stats->calls,
          stats->total,
          quantile(stats->p50),
          stats->p50 ? end(stats->p50_low).shown(interval_text(*stats)) : Cell(),
          end(stats->p50_high),
          quantile(stats->p95),
          stats->p50 ? Cell(stats->exact) : Cell(),
          stats->mean_ns(),
          stats->shortest,
          stats->longest};
}

Json time_json(const std::optional<TimeStats>& stats) {
  if (!stats) {
    return nullptr;
  }
  Table table(time_columns("", ""));
  table.add(time_cells(stats));
  return rows_json(table).front();
}

Table summary_table(const SummaryTables& tables) {
  const Bytes message = message_of(tables.rows);
  const nanoseconds time = time_of(tables.rows);
  Table table(row_columns());
  for (const SummaryRow& row : tables.rows) {
    table.add(row_cells(tables, row, message, time));
  }
  const bool has_rows = !tables.rows.empty();
  if (!tables.by_node) {
    table.remove({"wire_inter_node_bytes_all_ranks"});
  }
  if (!has_rows || !tables.rows.front().phase) {
    table.remove({"phase"});
  }
  if (!has_rows || !tables.rows.front().iteration) {
    table.remove({"iteration"});
  }
  if (!has_rows || !tables.rows.front().site) {
    table.remove({"site"});
  }
  if (!tables.link) {
    table.remove({"bus_share_of_link"});
  }
  return table;
}

std::string volumes_text(const SummaryTables& tables, const TextStyle& style) {
  return summary_table(tables)
      .picked({"op", Column{.key = "group_size", .align = Column::Align::left}, "phase", "iteration",
               "calls_all_ranks", Column{.key = "smallest_message_bytes", .drop_first = 1},
               Column{.key = "largest_message_bytes", .drop_first = 2}, "message_bytes_all_ranks",
               Column{.key = "share_of_message_bytes", .drop_first = 3}, "wire_bytes_all_ranks",
               "wire_inter_node_bytes_all_ranks"})
      .text_with_hidden(style);
}

std::string times_text(const SummaryTables& tables, const TextStyle& style) {
  const Table table =
      summary_table(tables)
          .with_value("time_ns_all_ranks")
          .picked({"op", Column{.key = "group_size", .align = Column::Align::left}, "phase", "iteration",
                   "time_ns_all_ranks", Column{.key = "share_of_time", .drop_first = 3}, "p50_ns",
                   Column{.key = "p50_low_ns", .title = "P50, 95 % interval", .drop_first = 1},
                   Column{.key = "p95_ns", .drop_first = 4},
                   Column{.key = "algorithm_bandwidth_bytes_per_s", .drop_first = 2},
                   "bus_bandwidth_bytes_per_s", "bus_share_of_link"});
  return table.empty() ? "" : table.text_with_hidden(style) + wrapped(exactness_text(tables.rows), style);
}

std::string sizes_text(const SummaryTables& tables, const TextStyle& style) {
  const Table table = summary_table(tables).picked(
      {"op", Column{.key = "group_size", .align = Column::Align::left}, "phase", "iteration",
       Column{.key = "smallest_message_bytes", .title = "message bytes"}, "calls_all_ranks",
       Column{.key = "share_of_message_bytes", .drop_first = 2},
       Column{.key = "time_ns_all_ranks", .drop_first = 3}, "p50_ns", "p95_ns",
       Column{.key = "algorithm_bandwidth_bytes_per_s", .drop_first = 1}, "bus_bandwidth_bytes_per_s",
       "bus_share_of_link", "wire_inter_node_bytes_all_ranks"});
  return table.text_with_hidden(style) + wrapped(exactness_text(tables.rows), style);
}

std::string call_sites_text(const SummaryTables& tables, const TextStyle& style) {
  const Table table = summary_table(tables).picked(
      {"site", "op", Column{.key = "group_size", .align = Column::Align::left}, "phase", "iteration",
       Column{.key = "smallest_message_bytes", .drop_first = 2},
       Column{.key = "largest_message_bytes", .drop_first = 3}, "calls_all_ranks", "message_bytes_all_ranks",
       Column{.key = "share_of_message_bytes", .drop_first = 4}, "time_ns_all_ranks", "share_of_time",
       Column{.key = "p50_ns", .drop_first = 5}, Column{.key = "p95_ns", .drop_first = 1}});
  return table.text_with_hidden(style) + wrapped(exactness_text(tables.rows), style);
}

}  // namespace commlens
