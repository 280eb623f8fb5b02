#include "commlens/report/cold_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/summary_tables.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

Column right(std::string title, int drop_first = 0) {
  return {.title = std::move(title), .align = Column::Align::right, .drop_first = drop_first};
}

std::string p50_text(const std::optional<TimeStats>& time) {
  return time && time->p50 ? (time->exact ? "" : "~") + to_text(*time->p50) : "";
}

std::string mean_text(const std::optional<TimeStats>& time) {
  return time ? to_text(nanoseconds(std::llround(time->mean_ns()))) : "";
}

/// "x 3.2": how many times as long; empty when one of them is not known or took no time.
std::string times_as_long(double time, double other) {
  if (time <= 0 || other <= 0) {
    return "";
  }
  const double ratio = time / other;
  return ratio < 9.95 ? fmt::format("x {:.1f}", ratio) : fmt::format("x {:.0f}", ratio);
}

/// `sum` of warm iterations for one of them.
double per_iteration(std::int64_t sum, std::int64_t iterations) {
  return static_cast<double>(sum) / static_cast<double>(iterations);
}

std::string calls_per_iteration(std::int64_t calls, std::int64_t iterations) {
  return calls % iterations == 0 ? with_commas(calls / iterations)
                                 : fmt::format("{:.1f}", per_iteration(calls, iterations));
}

/// Whether every op is called as often, and with as many bytes, in the cold iteration as in a warm one.
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

Json first_call_json(const Trace& trace, const FirstCallRow& row) {
  Json json = {{"op", name_of(row.kind)}, {"axis", name_of(row.axis)}, {"group_size", row.group_size}};
  if (row.kind == CommKind::other) {
    json["name"] = trace.names.text(row.name);
  }
  json["calls_all_ranks"] = row.calls;
  json["time"] = time_json(row.time);
  json["compared_calls_all_ranks"] = row.compared;
  json["compared_time_ns_all_ranks"] = row.compared_time.count();
  json["later_time_ns_all_ranks"] = row.later_time.count();
  return json;
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
  Table table({{.title = "op"},
               {.title = "group"},
               right("cold calls", 2),
               right("warm calls", 2),
               right("cold bytes", 1),
               right("warm bytes", 1),
               right("cold P50", 3),
               right("warm P50", 3),
               right("cold mean"),
               right("warm mean"),
               right("slower")});
  for (const ColdRow& row : cold.rows) {
    const auto warm_bytes =
        static_cast<std::int64_t>(per_iteration(row.warm_message.value, cold.warm_iterations));
    table.add({op_text(trace, row.kind, row.name), group_text(row.kind, row.axis, row.group_size),
               with_commas(row.cold_calls), calls_per_iteration(row.warm_calls, cold.warm_iterations),
               to_text(row.cold_message), to_text(Bytes{warm_bytes}), p50_text(row.cold), p50_text(row.warm),
               mean_text(row.cold), mean_text(row.warm),
               row.cold && row.warm ? times_as_long(row.cold->mean_ns(), row.warm->mean_ns()) : ""});
  }
  return table.text(style) + Table::hidden_text(table.hidden(style), style, "json") +
         wrapped("warm calls and bytes: of one iteration, on average; slower: mean time of a call\n", style);
}

std::string first_calls_text(const Trace& trace, const ColdStart& cold, const TextStyle& style) {
  Table table({{.title = "op"},
               {.title = "group"},
               right("first calls"),
               right("mean", 2),
               right("longest", 1),
               right("compared", 3),
               right("first"),
               right("later"),
               right("slower"),
               right("lost")});
  for (const FirstCallRow& row : cold.first_calls) {
    if (!row.time) {
      continue;
    }
    std::vector<std::string> cells = {op_text(trace, row.kind, row.name),
                                      group_text(row.kind, row.axis, row.group_size),
                                      with_commas(row.calls),
                                      mean_text(row.time),
                                      row.time->longest ? to_text(*row.time->longest) : "",
                                      with_commas(row.compared)};
    if (row.compared > 0) {
      const auto mean = [&](nanoseconds sum) { return to_text(sum / row.compared); };
      cells.insert(cells.end(),
                   {mean(row.compared_time), mean(row.later_time),
                    times_as_long(static_cast<double>(row.compared_time.count()),
                                  static_cast<double>(row.later_time.count())),
                    // first calls that took less time than later ones lose nothing
                    row.compared_time < row.later_time ? "-" : to_text(row.compared_time - row.later_time)});
    } else {
      cells.insert(cells.end(), {"-", "-", "-", "-"});
    }
    table.add(std::move(cells));
  }
  if (table.empty()) {
    return "";
  }
  return table.text(style) + Table::hidden_text(table.hidden(style), style, "json") +
         wrapped(
             "compared: with the mean of later calls of the same op, size "
             "and group; lost: all ranks added up\n",
             style);
}

Json cold_json(const Trace& trace, const ColdStart& cold) {
  Json rows = Json::array();
  for (const ColdRow& row : cold.rows) {
    Json json = {{"op", name_of(row.kind)}, {"axis", name_of(row.axis)}, {"group_size", row.group_size}};
    if (row.kind == CommKind::other) {
      json["name"] = trace.names.text(row.name);
    }
    json["cold_calls_all_ranks"] = row.cold_calls;
    json["cold_message_bytes_all_ranks"] = row.cold_message.value;
    json["cold_time"] = time_json(row.cold);
    json["warm_calls_all_ranks"] = row.warm_calls;
    json["warm_message_bytes_all_ranks"] = row.warm_message.value;
    json["warm_time"] = time_json(row.warm);
    rows.push_back(std::move(json));
  }
  Json first = Json::array();
  for (const FirstCallRow& row : cold.first_calls) {
    first.push_back(first_call_json(trace, row));
  }
  return {{"cold_iteration", cold.cold_iteration ? Json(*cold.cold_iteration) : Json()},
          {"cold_ranks", cold.cold_ranks},
          {"warm_iterations", cold.warm_iterations},
          {"ops", std::move(rows)},
          {"first_calls", std::move(first)}};
}

}  // namespace commlens
