#include "commlens/report/figures/breakdown_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/summary_tables.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// Columns that only some traces have.
struct Parts {
  bool wire = false;
  bool node = false;
  bool time = false;
  bool quantiles = false;
};

Parts parts_of(const FigureInput& input, const std::vector<SummaryRow>& rows) {
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  return {
      .wire = !is_printed_log(input.trace()) && any([](const SummaryRow& row) { return row.knows_wire(); }),
      .node =
          input.ranks_per_node > 0 && any([](const SummaryRow& row) { return row.knows_wire_inter_node(); }),
      .time = any([](const SummaryRow& row) { return row.time.has_value(); }),
      .quantiles = any([](const SummaryRow& row) { return row.time && row.time->p50; })};
}

/// Those columns of the summary's table that the trace has values for.
std::vector<FigureColumn> columns_of(const FigureInput& input, const std::vector<SummaryRow>& rows,
                                     const Parts& parts) {
  std::vector<ColumnUse> shown = {"call", "phase", "calls_all_ranks", "message_bytes_all_ranks",
                                  Column{"share_of_message_bytes", "share of message bytes"}};
  const auto add = [&](bool is_wanted, const std::vector<ColumnUse>& more) {
    shown.insert(shown.end(), more.begin(), is_wanted ? more.end() : more.begin());
  };
  add(parts.wire, {Column{"wire_bytes_all_ranks", "wire bytes, all ranks"}});
  add(parts.node, {Column{"wire_inter_node_bytes_all_ranks", "wire bytes between nodes"}});
  add(parts.time, {Column{"time_ns_all_ranks", "time in calls"}});
  add(parts.time && parts.quantiles, {"p50_ns", "p50_low_ns", "p50_high_ns", "p95_ns"});
  add(parts.time, {Column{"algorithm_bandwidth_bytes_per_s", "algorithm bandwidth"},
                   Column{"bus_bandwidth_bytes_per_s", "bus bandwidth"}});
  std::vector<Cell> labels;
  std::vector<Cell> ops;
  std::vector<Cell> axes;
  for (const SummaryRow& row : rows) {
    labels.emplace_back(call_label(input.trace(), row.kind, row.name, row.axis, row.group_size));
    ops.emplace_back(op_text(input.trace(), row.kind, row.name));
    axes.emplace_back(name_of(row.axis));
  }
  const SummaryTables tables{.trace = input.trace(), .rows = rows, .by_node = parts.node};
  return figure_columns(summary_table(tables)
                            .with(columns({"call"}), labels)
                            .picked(shown)
                            .with(columns({"op"}), ops)
                            .with(columns({"axis"}), axes),
                        {"op", "axis"});
}

Figure breakdown_of(const FigureInput& input, const std::vector<SummaryRow>& rows, const Summary& summary,
                    const std::string& which) {
  const Parts parts = parts_of(input, rows);
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "Calls and bytes of each op on each kind of group, summed over all ranks and {}. Message bytes are "
      "what "
      "the framework asked for, wire bytes what a bandwidth-optimal algorithm makes the ranks send.",
      which);
  figure.columns = columns_of(input, rows, parts);
  std::vector<std::string> toggles = {"message_bytes_all_ranks", "calls_all_ranks"};
  figure.formulas = {"message-bytes"};
  if (parts.wire) {
    toggles.insert(toggles.begin() + 1, "wire_bytes_all_ranks");
    figure.formulas.emplace_back("wire-bytes");
    note_unknown_wire(summary, figure);
  }
  if (parts.time) {
    toggles.emplace_back("time_ns_all_ranks");
    if (parts.quantiles) {
      figure.caption += " Time in calls is from start to completion, added up over ranks.";
      figure.formulas.emplace_back("quantiles");
    } else {
      figure.notes.push_back(fmt::format("Times are {}.", k_averages_text));
    }
    figure.formulas.emplace_back("bandwidth");
  }
  figure.options = bar_options("call", "phase", true, toggles);
  return figure;
}

}  // namespace

FigureResult breakdown_figure(const FigureInput& input) {
  if (input.by_phase.empty()) {
    return no_figure("the trace has no calls");
  }
  return breakdown_of(input, input.by_phase, input.volumes(), counted_iterations(input));
}

FigureResult init_breakdown_figure(const FigureInput& input) {
  if (input.init_by_phase.empty()) {
    return no_figure("nothing of the trace is known to be initialisation, or it is not apart");
  }
  return breakdown_of(input, input.init_by_phase, Summary{}, "initialisation");
}

}  // namespace commlens
