#include "commlens/app/bench_document.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Cell nanoseconds(const std::optional<double>& seconds) {
  return seconds ? Cell(std::chrono::nanoseconds(std::llround(*seconds * 1e9))) : Cell();
}

Cell bandwidth(const std::optional<double>& bytes_per_s) {
  return bytes_per_s ? Cell(BytesPerSecond{*bytes_per_s}) : Cell();
}

Cell flags_cell(const std::vector<bench::RowFlag>& flags) {
  std::vector<std::string> names;
  for (const bench::RowFlag flag : flags) {
    names.emplace_back(name_of(flag));
  }
  return {std::move(names)};
}

Cell interval_text(const bench::RowStats& stats) {
  return stats.low_s && stats.high_s
             ? Cell(fmt::format("{} - {}",
                                to_text(std::chrono::nanoseconds(std::llround(*stats.low_s * 1e9))),
                                to_text(std::chrono::nanoseconds(std::llround(*stats.high_s * 1e9)))))
             : Cell();
}

std::vector<Column> bench_columns() {
  const auto only_data = [](const char* key) { return data(key); };
  return columns({"op",
                  "dtype",
                  Column{.key = "axis", .title = "groups"},
                  Column{.key = "group_size", .title = "ranks"},
                  Column{.key = "message_bytes", .title = "size"},
                  only_data("in_place"),
                  "calls",
                  only_data("calls_all_ranks"),
                  only_data("launch_count"),
                  Column{.key = "samples", .drop_first = 2},
                  "p50_ns",
                  Column{.key = "",
                         .title = "95 % of P50",
                         .align = Column::Align::right,
                         .drop_first = 7,
                         .in_csv = false,
                         .in_json = false},
                  only_data("p50_low_ns"),
                  only_data("p50_high_ns"),
                  only_data("shortest_ns"),
                  only_data("mean_ns"),
                  Column{.key = "p95_ns", .drop_first = 5},
                  Column{.key = "p99_ns", .drop_first = 1},
                  Column{.key = "entry_skew_ns", .drop_first = 6},
                  Column{.key = "back_to_back_ns", .drop_first = 4},
                  Column{.key = "first_call_ns", .drop_first = 3},
                  only_data("algorithm_bandwidth_bytes_per_s"),
                  Column{.key = "bus_bandwidth_bytes_per_s", .drop_first = 8},
                  Column{.key = "wrong_elements"},
                  Column{.key = "sample_flags", .least = 10}});
}

void add_bench_row(Table& table, const BenchRow& row) {
  const bench::RowStats& stats = row.stats;
  const Cell size = row.key.group_size > 0 ? Cell(row.key.group_size) : Cell();
  table.add({row.key.op,
             row.key.dtype,
             row.key.group,
             size,
             Bytes{row.key.bytes},
             row.key.in_place,
             row.calls,
             row.calls_all_ranks,
             row.launches,
             stats.samples,
             nanoseconds(stats.p50_s),
             interval_text(stats),
             nanoseconds(stats.low_s),
             nanoseconds(stats.high_s),
             nanoseconds(stats.min_s),
             nanoseconds(stats.mean_s),
             nanoseconds(stats.p95_s),
             nanoseconds(stats.p99_s),
             nanoseconds(stats.skew_s),
             nanoseconds(row.back_to_back_s),
             nanoseconds(stats.first_s),
             bandwidth(row.algorithm_bandwidth()),
             bandwidth(row.bus_bandwidth()),
             row.wrong_elements,
             flags_cell(stats.flags)});
}

Table table_of_rows(const std::vector<BenchRow>& rows) {
  Table table(bench_columns());
  for (const BenchRow& row : rows) {
    add_bench_row(table, row);
  }
  return table;
}

std::vector<BenchRow> rows_of_launch(const BenchLaunch& launch) {
  BenchRun alone;
  alone.launches = {launch};
  return combined_rows(alone);
}

Json launch_json(const BenchLaunch& launch) {
  return {{"seed", launch.seed},
          {"began_unix_ns", launch.began_ns ? Json(*launch.began_ns) : Json()},
          {"clock_error_ns", std::llround(launch.clock_error_s * 1e9)},
          {"partial", launch.is_partial},
          {"rows", rows_json(table_of_rows(rows_of_launch(launch)))}};
}

Json shift_json(const LaunchShift& shift) {
  return {
      {"ratio", shift.ratio}, {"p", shift.p}, {"p_adjusted", shift.p_adjusted}, {"slower", shift.is_slower}};
}

/// By op.
Json ops_json(const BenchComparison& comparison) {
  Json json = Json::object();
  for (const BenchOpCheck& op : comparison.ops) {
    json[op.op] = {{"row_count", op.rows},
                   {"ratio", op.ratio},
                   {"relative_ratio", op.shift.ratio},
                   {"p", op.shift.p},
                   {"p_adjusted", op.shift.p_adjusted},
                   {"slower", op.shift.is_slower}};
  }
  return json;
}

bool is_same_everywhere(const Table& table, std::size_t column) {
  return std::all_of(table.rows().begin(), table.rows().end(), [&](const auto& row) {
    return row[column].value() == table.rows().front()[column].value();
  });
}

}  // namespace

Table bench_table(const BenchRun& run) {
  const Table table = table_of_rows(combined_rows(run));
  std::vector<Column> shown = table.columns();
  for (std::size_t column = 0; column < shown.size(); ++column) {
    const std::string& key = shown[column].key;
    const bool may_be_hidden = key == "dtype" || key == "axis" || key == "group_size";
    const bool is_empty = std::all_of(table.rows().begin(), table.rows().end(), [&](const auto& row) {
      const auto* const list = std::get_if<std::vector<std::string>>(&row[column].value());
      return row[column].is_missing() || (list != nullptr && list->empty());
    });
    if (is_empty || (may_be_hidden && is_same_everywhere(table, column))) {
      shown[column].in_text = false;
    }
  }
  Table result(std::move(shown));
  for (const std::vector<Cell>& row : table.rows()) {
    result.add(row);
  }
  return result;
}

Table bench_check_table(const std::vector<BenchCheck>& checks) {
  Table table(columns(
      {"op", "dtype", Column{.key = "axis", .title = "groups"}, Column{.key = "group_size", .title = "ranks"},
       Column{.key = "message_bytes", .title = "size"}, "in_place", "before_p50_ns", "p50_ns",
       Column{.key = "ratio", .title = "now / before"}, "relative_ratio", "p", "p_adjusted", "slower"}));
  for (const BenchCheck& check : checks) {
    table.add({check.key.op, check.key.dtype, check.key.group,
               check.key.group_size > 0 ? Cell(check.key.group_size) : Cell(), Bytes{check.key.bytes},
               check.key.in_place, nanoseconds(check.before_s), nanoseconds(check.now_s), check.ratio(),
               check.relative_ratio, check.p, check.p_adjusted, check.is_slower});
  }
  return table;
}

nlohmann::ordered_json bench_json(const BenchResult& result) {
  const BenchRun& run = result.run;
  Json launches = Json::array();
  bool is_partial = run.was_stopped;
  for (const BenchLaunch& launch : run.launches) {
    launches.push_back(launch_json(launch));
    is_partial = is_partial || launch.is_partial;
  }
  Json json = {{"schema", k_bench_schema},
               {"transport", run.transport},
               {"rank_count", run.ranks},
               {"cache", run.is_cold ? "cold" : "hot"},
               {"transports", run.table.empty() ? Json() : Json(run.table)},
               {"messages_of", run.messages.empty() ? Json() : Json(run.messages)},
               {"partial", is_partial},
               {"rows", rows_json(table_of_rows(combined_rows(run)))}};
  if (const std::optional<BenchStep> step = step_of(run); step && !run.launches.empty()) {
    json["step_ns"] = std::llround(step->total_s * 1e9);
    json["step_ranks"] = step->ranks;
  }
  json["launches"] = std::move(launches);
  if (!result.checked.rows.empty()) {
    json["check"] = {{"file", result.checked_with},
                     {"rows", rows_json(bench_check_table(result.checked.rows))},
                     {"by_op", ops_json(result.checked)},
                     {"all_rows", result.checked.all ? shift_json(*result.checked.all) : Json()}};
  }
  return json;
}

}  // namespace commlens
