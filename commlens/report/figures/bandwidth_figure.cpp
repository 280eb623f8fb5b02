#include "commlens/report/figures/bandwidth_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_points = 5000;

}  // namespace

FigureResult bandwidth_figure(const FigureInput& input) {
  if (!input.summary.time) {
    return no_figure(no_times_reason(input.trace()));
  }
  SummaryOptions options;
  options.iterations = input.training ? input.training : input.iterations;
  options.by_size = true;
  std::vector<SummaryRow> rows = summary_rows(input.trace(), options);
  std::erase_if(rows, [](const SummaryRow& row) {
    return !row.bus_bandwidth || !row.time || row.largest.value <= 0 || row.bus_bandwidth->value <= 0;
  });
  if (rows.empty()) {
    return no_figure("no call has a time, a size and a group of known size");
  }
  Figure figure;
  if (rows.size() > k_most_points) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const SummaryRow& a, const SummaryRow& b) { return a.time->total > b.time->total; });
    figure.notes.push_back(fmt::format("The {} of {} sizes that take most time are shown.", k_most_points,
                                       with_commas(std::ssize(rows))));
    rows.resize(k_most_points);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const SummaryRow& a, const SummaryRow& b) {
    return std::tuple(a.kind, a.axis, a.group_size, a.largest) <
           std::tuple(b.kind, b.axis, b.group_size, b.largest);
  });
  Table table(columns({"call", Column{"message_bytes", "message size"}, "calls_all_ranks", "p50_ns",
                       Column{"bus_bandwidth_bytes_per_s", "bus bandwidth"},
                       Column{"algorithm_bandwidth_bytes_per_s", "algorithm bandwidth"}, "op", "axis"}));
  for (const SummaryRow& row : rows) {
    table.add({call_label(input.trace(), row.kind, row.name, row.axis, row.group_size), row.largest,
               row.calls, row.time->p50, row.bus_bandwidth, row.algorithm_bandwidth,
               op_text(input.trace(), row.kind, row.name), name_of(row.axis)});
  }
  figure.kind = FigureKind::scatter;
  figure.caption = fmt::format(
      "Bus bandwidth of the calls of each exact message size, over all ranks and {}: their bytes over the "
      "sum of "
      "their times, waiting for later ranks included. Comparable with a link's and with nccl-tests' busbw.",
      counted_iterations(input));
  if (input.trace().provenance.averaged_times) {
    figure.notes.push_back(fmt::format("Times are {}.", k_averages_text));
  }
  figure.columns = figure_columns(table, {"op", "axis"});
  figure.options = {
      {"x", std::string("message_bytes")},
      {"y", std::string("bus_bandwidth_bytes_per_s")},
      {"series", std::string("call")},
      {"log_x", true},
      {"log_y", true},
      {"toggles", std::vector<std::string>{"bus_bandwidth_bytes_per_s", "algorithm_bandwidth_bytes_per_s"}}};
  figure.formulas = {"bandwidth", "message-bytes"};
  return figure;
}

}  // namespace commlens
