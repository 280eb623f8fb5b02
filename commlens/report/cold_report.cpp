#include "commlens/report/cold_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/summary_tables.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

/// The ratio of two times; 0 if one of them is not known or 0.
double times_as_long(double time, double other) { return time <= 0 || other <= 0 ? 0 : time / other; }

/// "x 3.2"
Cell slowdown_cell(double ratio) {
  return ratio == 0 ? Cell() : Cell(ratio).shown(fmt::format("x {:.{}f}", ratio, ratio < 9.95 ? 1 : 0));
}

/// `sum` of warm iterations for one of them.
double per_iteration(std::int64_t sum, std::int64_t iterations) {
  return static_cast<double>(sum) / static_cast<double>(iterations);
}

Cell calls_per_iteration(std::int64_t calls, std::int64_t iterations) {
  return calls % iterations == 0 ? Cell(calls / iterations)
                                 : Cell(per_iteration(calls, iterations))
                                       .shown(fmt::format("{:.1f}", per_iteration(calls, iterations)));
}

/// Whether every op has the same calls and bytes in the cold iteration as in a warm one.
bool is_alike(const ColdStart& cold) {
  return std::all_of(cold.rows.begin(), cold.rows.end(), [&](const ColdRow& row) {
    return row.cold_calls * cold.warm_iterations == row.warm_calls &&
           row.cold_message * cold.warm_iterations == row.warm_message;
  });
}

bool has_times(const ColdStart& cold) {
  return std::any_of(cold.rows.begin(), cold.rows.end(),
                     [](const ColdRow& row) { return row.cold.has_value() || row.warm.has_value(); });
}

Table cold_table(const Trace& trace, const ColdStart& cold) {
  Table table(concatenated(
      call_columns(),
      columns({"cold_calls_all_ranks", "warm_calls_all_ranks", "warm_calls_per_iteration_all_ranks",
               "cold_message_bytes_all_ranks", "warm_message_bytes_all_ranks",
               "warm_message_bytes_per_iteration_all_ranks", "cold_slowdown"}),
      time_columns("cold_", "cold_time"), time_columns("warm_", "warm_time")));
  const std::int64_t warm = cold.warm_iterations;
  for (const ColdRow& row : cold.rows) {
    const double slowdown =
        row.cold && row.warm ? times_as_long(row.cold->mean_ns(), row.warm->mean_ns()) : 0;
    table.add(concatenated(
        call_cells(trace, row.kind, row.name, row.axis, row.group_size),
        Cells{row.cold_calls, row.warm_calls, warm > 0 ? calls_per_iteration(row.warm_calls, warm) : Cell(),
              row.cold_message, row.warm_message,
              warm > 0 ? Cell(std::floor(per_iteration(row.warm_message.value, warm))) : Cell(),
              slowdown_cell(slowdown)},
        time_cells(row.cold), time_cells(row.warm)));
  }
  return table;
}

Table first_calls_table(const Trace& trace, const ColdStart& cold) {
  Table table(
      concatenated(call_columns(),
                   columns({"calls_all_ranks", "compared_calls_all_ranks", "compared_time_ns_all_ranks",
                            "later_time_ns_all_ranks", "compared_mean_ns", "later_mean_ns", "cold_slowdown",
                            "lost_ns_all_ranks"}),
                   time_columns("", "time")));
  for (const FirstCallRow& row : cold.first_calls) {
    const bool is_compared = row.compared > 0;
    const auto mean = [&](nanoseconds sum) { return or_dash(is_compared ? sum / row.compared : Cell()); };
    const double slowdown = times_as_long(static_cast<double>(row.compared_time.count()),
                                          static_cast<double>(row.later_time.count()));
    // First calls that took less time than later ones count as 0.
    const nanoseconds lost = row.compared_time - row.later_time;
    Cell lost_cell = or_dash(is_compared ? lost : Cell());
    table.add(concatenated(
        call_cells(trace, row.kind, row.name, row.axis, row.group_size),
        Cells{row.calls, row.compared, row.compared_time, row.later_time, mean(row.compared_time),
              mean(row.later_time), is_compared ? slowdown_cell(slowdown) : or_dash({}),
              lost.count() < 0 ? std::move(lost_cell).shown("-") : lost_cell},
        time_cells(row.time)));
  }
  return table;
}

}  // namespace

std::string cold_text(const Trace& trace, const ColdStart& cold, const TextStyle& style) {
  if (cold.cold_ranks == 0) {
    return "";
  }
  if (cold.warm_iterations == 0) {
    return "no later iteration to compare it with\n";
  }
  if (!has_times(cold) && is_alike(cold)) {
    return "the cold iteration makes the same calls as the warm ones; the trace has no times\n";
  }
  const Table table =
      cold_table(trace, cold)
          .picked(
              {"op", Column{.key = "group_size", .align = Column::Align::left},
               Column{.key = "cold_calls_all_ranks", .drop_first = 2},
               Column{.key = "warm_calls_per_iteration_all_ranks", .title = "warm calls", .drop_first = 2},
               Column{.key = "cold_message_bytes_all_ranks", .drop_first = 1},
               Column{.key = "warm_message_bytes_per_iteration_all_ranks",
                      .title = "warm bytes",
                      .drop_first = 1},
               Column{.key = "cold_p50_ns", .title = "cold P50", .drop_first = 3},
               Column{.key = "warm_p50_ns", .title = "warm P50", .drop_first = 3},
               Column{.key = "cold_mean_ns", .title = "cold mean"},
               Column{.key = "warm_mean_ns", .title = "warm mean"}, "cold_slowdown"});
  return table.text_with_hidden(style, "json") +
         wrapped("warm calls and bytes: of one iteration, on average; slower: mean time of a call\n", style);
}

std::string first_calls_text(const Trace& trace, const ColdStart& cold, const TextStyle& style) {
  const Table table =
      first_calls_table(trace, cold)
          .with_value("time_ns_all_ranks")
          .picked({"op", Column{.key = "group_size", .align = Column::Align::left},
                   Column{"calls_all_ranks", "first calls"}, Column{.key = "mean_ns", .drop_first = 2},
                   Column{.key = "longest_ns", .drop_first = 1},
                   Column{.key = "compared_calls_all_ranks", .drop_first = 3}, "compared_mean_ns",
                   "later_mean_ns", "cold_slowdown", "lost_ns_all_ranks"});
  if (table.empty()) {
    return "";
  }
  return table.text_with_hidden(style, "json") +
         wrapped(
             "compared: with the mean of later calls of the same op, size "
             "and group; lost: all ranks added up\n",
             style);
}

Json cold_json(const Trace& trace, const ColdStart& cold) {
  return {{"cold_iteration", cold.cold_iteration ? Json(*cold.cold_iteration) : Json()},
          {"cold_rank_count", cold.cold_ranks},
          {"warm_iterations", cold.warm_iterations},
          {"ops", rows_json(cold_table(trace, cold))},
          {"first_calls", rows_json(first_calls_table(trace, cold))}};
}

}  // namespace commlens
