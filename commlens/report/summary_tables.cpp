#include "commlens/report/summary_tables.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/sums.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/csv.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

Column right(std::string title, int drop_first = 0) {
  return {.title = std::move(title), .align = Column::Align::right, .drop_first = drop_first};
}

std::string phase_text(const SummaryRow& row) { return row.phase ? std::string(name_of(*row.phase)) : ""; }

std::string iteration_of(const SummaryRow& row) {
  return row.iteration ? iteration_text(*row.iteration) : "";
}

std::string wire_text(const SummaryRow& row) {
  return row.group_size == 1 ? "no traffic" : row.knows_wire() ? to_text(row.wire) : "-";
}

std::string inter_node_text(const SummaryRow& row) {
  return row.knows_wire_inter_node() ? to_text(row.wire_inter_node) : "-";
}

std::string bandwidth_text(const std::optional<BytesPerSecond>& bandwidth) {
  return bandwidth ? to_text(*bandwidth) : "-";
}

std::optional<double> link_share(const SummaryTables& tables, const SummaryRow& row) {
  if (!tables.link || !row.bus_bandwidth) {
    return std::nullopt;
  }
  return row.bus_bandwidth->value / tables.link->value;
}

std::string link_text(const SummaryTables& tables, const SummaryRow& row) {
  const std::optional<double> share = link_share(tables, row);
  return share ? fmt::format("{:.1f} %", 100 * *share) : tables.link ? "-" : "";
}

/// What the quantiles of the rows are, if they have any.
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

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
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

Json bandwidth_json(const std::optional<BytesPerSecond>& bandwidth) {
  return bandwidth ? Json(bandwidth->value) : Json();
}

std::string number_text(const std::optional<double>& number) {
  return number ? fmt::format("{}", *number) : "";
}

std::vector<std::string> csv_titles(const SummaryTables& tables, bool by_phase, bool by_iteration) {
  std::vector<std::string> titles = {"op",
                                     "name",
                                     "axis",
                                     "group_size",
                                     "calls_all_ranks",
                                     "smallest_message_bytes",
                                     "largest_message_bytes",
                                     "message_bytes_all_ranks",
                                     "wire_bytes_all_ranks"};
  const auto add = [&](bool is_wanted, std::initializer_list<const char*> more) {
    if (is_wanted) {
      titles.insert(titles.end(), more.begin(), more.end());
    }
  };
  add(tables.by_node, {"wire_inter_node_bytes_all_ranks"});
  add(by_phase, {"phase"});
  add(by_iteration, {"iteration"});
  add(true, {"timed_calls_all_ranks", "total_time_ns_all_ranks", "p50_ns", "p50_low_ns", "p50_high_ns",
             "p95_ns", "exact_quantiles", "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s"});
  add(tables.link.has_value(), {"bus_share_of_link"});
  return titles;
}

void add_time_cells(const SummaryRow& row, std::vector<std::string>& cells) {
  if (!row.time) {
    cells.insert(cells.end(), {"0", "", "", "", "", "", "", "", ""});
    return;
  }
  const TimeStats& time = *row.time;
  const auto interval = [&](nanoseconds end) { return time.has_interval ? std::to_string(end.count()) : ""; };
  const auto one = [](const std::optional<nanoseconds>& of_one) {
    return of_one ? std::to_string(of_one->count()) : "";
  };
  const auto value = [](const std::optional<BytesPerSecond>& bandwidth) {
    return number_text(bandwidth ? std::optional(bandwidth->value) : std::nullopt);
  };
  cells.insert(cells.end(), {std::to_string(time.calls), std::to_string(time.total.count()), one(time.p50),
                             interval(time.p50_low), interval(time.p50_high), one(time.p95),
                             !time.p50    ? ""
                             : time.exact ? "true"
                                          : "false",
                             value(row.algorithm_bandwidth), value(row.bus_bandwidth)});
}

}  // namespace

std::string volumes_text(const SummaryTables& tables, const TextStyle& style) {
  const Bytes message = message_of(tables.rows);
  Table table({{.title = "op"},
               {.title = "group"},
               {.title = "phase"},
               right("iteration"),
               right("calls"),
               right("smallest", 1),
               right("largest", 2),
               right("message bytes"),
               right("share", 3),
               right("wire bytes"),
               right("inter-node")});
  for (const SummaryRow& row : tables.rows) {
    table.add({op_text(tables.trace, row.kind, row.name), group_text(row.kind, row.axis, row.group_size),
               phase_text(row), iteration_of(row), with_commas(row.calls), to_text(row.smallest),
               to_text(row.largest), to_text(row.message), percent(row.message.value, message.value),
               wire_text(row), tables.by_node ? inter_node_text(row) : ""});
  }
  return table.text_with_hidden(style);
}

std::string times_text(const SummaryTables& tables, const TextStyle& style) {
  const nanoseconds all = time_of(tables.rows);
  Table table({{.title = "op"},
               {.title = "group"},
               {.title = "phase"},
               right("iteration"),
               right("total"),
               right("share", 3),
               right("P50"),
               right("P50, 95 % interval", 1),
               right("P95", 4),
               right("alg bw", 2),
               right("bus bw"),
               right("of link")});
  for (const SummaryRow& row : tables.rows) {
    if (!row.time) {
      continue;
    }
    const std::string about = row.time->exact ? "" : "~";
    table.add({op_text(tables.trace, row.kind, row.name), group_text(row.kind, row.axis, row.group_size),
               phase_text(row), iteration_of(row), to_text(row.time->total),
               row.time->p50 ? percent(row.time->total.count(), all.count()) : "",
               row.time->p50 ? about + to_text(*row.time->p50) : "",
               row.time->p50 ? interval_text(*row.time) : "",
               row.time->p95 ? about + to_text(*row.time->p95) : "", bandwidth_text(row.algorithm_bandwidth),
               bandwidth_text(row.bus_bandwidth), link_text(tables, row)});
  }
  if (table.empty()) {
    return "";
  }
  return table.text_with_hidden(style) + wrapped(exactness_text(tables.rows), style);
}

Json time_json(const std::optional<TimeStats>& stats) {
  if (!stats) {
    return nullptr;
  }
  const auto interval = [&](nanoseconds end) { return stats->has_interval ? Json(end.count()) : Json(); };
  const auto one = [](const std::optional<nanoseconds>& of_one) {
    return of_one ? Json(of_one->count()) : Json();
  };
  return {{"calls_all_ranks", stats->calls},
          {"total_ns_all_ranks", stats->total.count()},
          {"mean_ns", stats->mean_ns()},
          {"shortest_ns", one(stats->shortest)},
          {"p50_ns", one(stats->p50)},
          {"p50_low_ns", interval(stats->p50_low)},
          {"p50_high_ns", interval(stats->p50_high)},
          {"p95_ns", one(stats->p95)},
          {"longest_ns", one(stats->longest)},
          {"exact", stats->p50 ? Json(stats->exact) : Json()}};
}

Json summary_rows_json(const SummaryTables& tables) {
  const Bytes message = message_of(tables.rows);
  const nanoseconds time = time_of(tables.rows);
  Json list = Json::array();
  for (const SummaryRow& row : tables.rows) {
    Json json = {{"op", name_of(row.kind)},
                 {"axis", name_of(row.axis)},
                 {"group_size", row.group_size},
                 {"calls_all_ranks", row.calls},
                 {"smallest_message_bytes", row.smallest.value},
                 {"largest_message_bytes", row.largest.value},
                 {"message_bytes_all_ranks", row.message.value},
                 {"wire_bytes_all_ranks", row.knows_wire() ? Json(row.wire.value) : Json()}};
    if (tables.by_node) {
      json["wire_inter_node_bytes_all_ranks"] =
          row.knows_wire_inter_node() ? Json(row.wire_inter_node.value) : Json();
    }
    if (row.kind == CommKind::other) {
      json["name"] = tables.trace.names.text(row.name);
    }
    if (row.phase) {
      json["phase"] = name_of(*row.phase);
    }
    if (row.iteration) {
      json["iteration"] = iteration_json(*row.iteration);
    }
    json["wire_bytes_mean_per_rank"] =
        row.knows_wire() ? Json(tables.ranks == 0
                                    ? 0.0
                                    : static_cast<double>(row.wire.value) / static_cast<double>(tables.ranks))
                         : Json();
    json["share_of_message_bytes"] = share(row.message.value, message.value);
    json["share_of_time"] =
        row.time && row.time->p50 ? Json(share(row.time->total.count(), time.count())) : Json();
    json["time"] = time_json(row.time);
    json["algorithm_bandwidth_bytes_per_s"] = bandwidth_json(row.algorithm_bandwidth);
    json["bus_bandwidth_bytes_per_s"] = bandwidth_json(row.bus_bandwidth);
    if (tables.link) {
      const std::optional<double> of_link = link_share(tables, row);
      json["bus_share_of_link"] = of_link ? Json(*of_link) : Json();
    }
    list.push_back(std::move(json));
  }
  return list;
}

std::string summary_rows_csv(const SummaryTables& tables) {
  const bool by_phase = !tables.rows.empty() && tables.rows.front().phase.has_value();
  const bool by_iteration = !tables.rows.empty() && tables.rows.front().iteration.has_value();
  std::string text = csv_line(csv_titles(tables, by_phase, by_iteration));
  for (const SummaryRow& row : tables.rows) {
    std::vector<std::string> cells = {std::string(name_of(row.kind)), tables.trace.names.text(row.name),
                                      std::string(name_of(row.axis))};
    for (const std::int64_t number :
         {row.group_size, row.calls, row.smallest.value, row.largest.value, row.message.value}) {
      cells.push_back(std::to_string(number));
    }
    cells.push_back(row.knows_wire() ? std::to_string(row.wire.value) : "");
    if (tables.by_node) {
      cells.push_back(row.knows_wire_inter_node() ? std::to_string(row.wire_inter_node.value) : "");
    }
    if (by_phase) {
      cells.push_back(phase_text(row));
    }
    if (by_iteration) {
      cells.push_back(iteration_cell(row.iteration.value_or(k_unknown_iteration)));
    }
    add_time_cells(row, cells);
    if (tables.link) {
      cells.push_back(number_text(link_share(tables, row)));
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
