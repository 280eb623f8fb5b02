#include "commlens/report/figures/iterations_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_iterations = 1000;

/// A row whose iteration is known.
struct IterationRow {
  Iteration iteration;
  const SummaryRow* row;
};

/// Ascending by iteration; rows of one keep their order (most bytes first).
std::vector<IterationRow> rows_by_iteration(const FigureInput& input) {
  std::vector<IterationRow> rows;
  for (const SummaryRow& row : input.by_iteration) {
    if (row.iteration && *row.iteration != k_unknown_iteration) {
      rows.push_back({*row.iteration, &row});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const IterationRow& a, const IterationRow& b) { return a.iteration < b.iteration; });
  return rows;
}

}  // namespace

FigureResult iterations_figure(const FigureInput& input) {
  std::vector<Iteration> iterations = input.summary.iterations.list();
  if (iterations.size() < 2) {
    return no_figure(iterations.empty() ? "the trace does not say which iteration a call is of"
                                        : "the trace, or what of it is shown, has one iteration");
  }
  Figure figure;
  if (iterations.size() > k_most_iterations) {
    figure.notes.push_back(
        fmt::format("The first {} of {} iterations are shown; choose others with --iteration.",
                    k_most_iterations, iterations.size()));
    iterations.resize(k_most_iterations);
  }
  Table table(columns({"iteration", "call", "calls_all_ranks", "message_bytes_all_ranks",
                       Column{"wire_bytes_all_ranks", "wire bytes, all ranks"},
                       Column{"time_ns_all_ranks", "time in calls"}, "op", "axis"}));
  for (const auto& [number, row] : rows_by_iteration(input)) {
    if (number > iterations.back()) {
      break;
    }
    table.add({number, call_label(input.trace(), row->kind, row->name, row->axis, row->group_size),
               row->calls, row->message, row->knows_wire() ? Cell(row->wire) : Cell(),
               row->time ? Cell(row->time->total) : Cell(), op_text(input.trace(), row->kind, row->name),
               name_of(row->axis)});
  }
  figure.kind = FigureKind::lines;
  figure.caption = "Calls and bytes per iteration, summed over all ranks; iteration -1 is initialisation.";
  std::vector<std::string> toggles = {"message_bytes_all_ranks", "calls_all_ranks"};
  figure.formulas = {"message-bytes"};
  if (knows_wire(input.summary)) {
    toggles.insert(toggles.begin() + 1, "wire_bytes_all_ranks");
    figure.formulas.emplace_back("wire-bytes");
  } else {
    table.remove({"wire_bytes_all_ranks"});
  }
  note_unknown_wire(input.summary, figure);
  if (input.summary.time) {
    toggles.insert(toggles.begin(), "time_ns_all_ranks");
    figure.caption += " Time in calls is from start to completion, added up over ranks.";
  } else {
    table.remove({"time_ns_all_ranks"});
  }
  figure.columns = figure_columns(table, {"op", "axis"});
  figure.options = {{"x", std::string("iteration")},
                    {"series", std::string("call")},
                    {"value", toggles.front()},
                    {"toggles", toggles}};
  return figure;
}

}  // namespace commlens
