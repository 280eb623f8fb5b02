#include "commlens/report/figures/breakdown_figure.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"

namespace commlens {
namespace {

constexpr double k_none = std::numeric_limits<double>::quiet_NaN();

/// Columns that only some traces have.
struct Parts {
  bool wire = false;
  bool node = false;
  bool time = false;
  bool quantiles = false;
};

Parts parts_of(const FigureInput& input) {
  const bool knows_none =
      std::none_of(input.by_phase.begin(), input.by_phase.end(),
                   [](const SummaryRow& row) { return inter_node_or_none(row) != k_no_value; });
  return {.wire = !is_printed_log(input.trace()) && wire_or_none(input.summary) != k_no_value,
          .node = input.ranks_per_node > 0 && !knows_none,
          .time = input.summary.time.has_value(),
          .quantiles = input.summary.time && input.summary.time->p50};
}

void add_volumes(Figure& figure, const FigureInput& input, const Parts& parts) {
  FigureColumn calls = whole_column("calls", "calls");
  FigureColumn message = whole_column("message_bytes", "message bytes", "bytes");
  FigureColumn share = number_column("message_share", "share of message bytes", "share");
  FigureColumn wire = whole_column("wire_bytes", "wire bytes, all ranks", "bytes");
  FigureColumn node = whole_column("wire_inter_node_bytes", "wire bytes between nodes", "bytes");
  const auto all = static_cast<double>(input.summary.message.value);
  for (const SummaryRow& row : input.by_phase) {
    wholes(calls).push_back(row.calls);
    wholes(message).push_back(row.message.value);
    numbers(share).push_back(all > 0 ? static_cast<double>(row.message.value) / all : k_none);
    wholes(wire).push_back(wire_or_none(row));
    wholes(node).push_back(inter_node_or_none(row));
  }
  figure.columns.push_back(std::move(calls));
  figure.columns.push_back(std::move(message));
  figure.columns.push_back(std::move(share));
  if (parts.wire) {
    figure.columns.push_back(std::move(wire));
  }
  if (parts.node) {
    figure.columns.push_back(std::move(node));
  }
}

void add_times(Figure& figure, const FigureInput& input, const Parts& parts) {
  FigureColumn total = number_column("time_ns", "time in calls", "ns");
  FigureColumn p50 = number_column("p50_ns", "P50", "ns");
  FigureColumn low = number_column("p50_low_ns", "P50 from", "ns");
  FigureColumn high = number_column("p50_high_ns", "P50 to", "ns");
  FigureColumn p95 = number_column("p95_ns", "P95", "ns");
  FigureColumn algorithm =
      number_column("algorithm_bytes_per_second", "algorithm bandwidth", "bytes_per_second");
  FigureColumn bus = number_column("bus_bytes_per_second", "bus bandwidth", "bytes_per_second");
  for (const SummaryRow& row : input.by_phase) {
    const bool has_interval = row.time && row.time->has_interval;
    numbers(total).push_back(nanoseconds_or_none(row.time, &TimeStats::total));
    numbers(p50).push_back(nanoseconds_or_none(row.time, &TimeStats::p50));
    numbers(low).push_back(has_interval ? nanoseconds_or_none(row.time, &TimeStats::p50_low) : k_none);
    numbers(high).push_back(has_interval ? nanoseconds_or_none(row.time, &TimeStats::p50_high) : k_none);
    numbers(p95).push_back(nanoseconds_or_none(row.time, &TimeStats::p95));
    numbers(algorithm).push_back(row.algorithm_bandwidth ? row.algorithm_bandwidth->value : k_none);
    numbers(bus).push_back(row.bus_bandwidth ? row.bus_bandwidth->value : k_none);
  }
  std::vector<FigureColumn*> columns = {&total, &algorithm, &bus};
  if (parts.quantiles) {
    columns.insert(columns.begin() + 1, {&p50, &low, &high, &p95});
  }
  for (FigureColumn* const column : columns) {
    figure.columns.push_back(std::move(*column));
  }
}

}  // namespace

FigureResult breakdown_figure(const FigureInput& input) {
  if (input.by_phase.empty()) {
    return no_figure("the trace has no calls");
  }
  FigureColumn call = text_column("call", "op and group");
  FigureColumn phase = text_column("phase", "phase");
  for (const SummaryRow& row : input.by_phase) {
    texts(call).add(call_label(input.trace(), row.kind, row.name, row.axis, row.group_size));
    texts(phase).add(name_of(row.phase.value_or(Phase::other)));
  }
  const Parts parts = parts_of(input);
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption =
      "Calls and bytes of each op on each kind of group, summed over all ranks and the iterations shown. "
      "Message "
      "bytes are what the framework asked for, wire bytes what a bandwidth-optimal algorithm makes the ranks "
      "send.";
  figure.columns = {std::move(call), std::move(phase)};
  add_volumes(figure, input, parts);
  std::vector<std::string> toggles = {"message_bytes", "calls"};
  figure.formulas = {"message-bytes"};
  if (parts.wire) {
    toggles.insert(toggles.begin() + 1, "wire_bytes");
    figure.formulas.emplace_back("wire-bytes");
    note_unknown_wire(input.summary, figure);
  }
  if (parts.time) {
    add_times(figure, input, parts);
    toggles.emplace_back("time_ns");
    if (parts.quantiles) {
      figure.caption += " Time in calls is from start to completion, added up over ranks.";
      figure.formulas.emplace_back("quantiles");
    } else {
      figure.notes.push_back(fmt::format("Times are {}.", k_averages_text));
    }
    figure.formulas.emplace_back("bandwidth");
  }
  figure.options = {{"category", std::string("call")},
                    {"series", std::string("phase")},
                    {"value", std::string("message_bytes")},
                    {"stacked", true},
                    {"toggles", std::move(toggles)}};
  return figure;
}

}  // namespace commlens
