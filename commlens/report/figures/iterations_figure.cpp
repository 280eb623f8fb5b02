#include "commlens/report/figures/iterations_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"

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
        fmt::format("The first {} of {} iterations are shown; choose others with --iterations.",
                    k_most_iterations, iterations.size()));
    iterations.resize(k_most_iterations);
  }
  FigureColumn iteration = whole_column("iteration", "iteration");
  FigureColumn call = text_column("call", "op and group");
  FigureColumn calls = whole_column("calls", "calls");
  FigureColumn message = whole_column("message_bytes", "message bytes", "bytes");
  FigureColumn wire = whole_column("wire_bytes", "wire bytes, all ranks", "bytes");
  FigureColumn time = number_column("time_ns", "time in calls", "ns");
  for (const auto& [number, row] : rows_by_iteration(input)) {
    if (number > iterations.back()) {
      break;
    }
    wholes(iteration).push_back(number);
    texts(call).add(call_label(input.trace(), row->kind, row->name, row->axis, row->group_size));
    wholes(calls).push_back(row->calls);
    wholes(message).push_back(row->message.value);
    wholes(wire).push_back(wire_or_none(*row));
    numbers(time).push_back(nanoseconds_or_none(row->time, &TimeStats::total));
  }
  figure.kind = FigureKind::lines;
  figure.caption = "Calls and bytes per iteration, summed over all ranks; iteration -1 is initialisation.";
  figure.columns = {std::move(iteration), std::move(call), std::move(calls), std::move(message)};
  std::vector<std::string> toggles = {"message_bytes", "calls"};
  figure.formulas = {"message-bytes"};
  if (wire_or_none(input.summary) != k_no_value) {
    figure.columns.push_back(std::move(wire));
    toggles.insert(toggles.begin() + 1, "wire_bytes");
    figure.formulas.emplace_back("wire-bytes");
  }
  note_unknown_wire(input.summary, figure);
  if (input.summary.time) {
    figure.columns.push_back(std::move(time));
    toggles.insert(toggles.begin(), "time_ns");
    figure.caption += " Time in calls is from start to completion, added up over ranks.";
  }
  figure.options = {{"x", std::string("iteration")},
                    {"series", std::string("call")},
                    {"value", toggles.front()},
                    {"toggles", toggles}};
  return figure;
}

}  // namespace commlens
