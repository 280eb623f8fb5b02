#include "commlens/report/figures/cold_figure.hpp"

#include <limits>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"

namespace commlens {

FigureResult cold_figure(const FigureInput& input) {
  const ColdStart& cold = input.summary.cold;
  if (input.summary.coverage.averaged_times) {
    return no_figure(no_times_reason(input.trace()));
  }
  if (cold.cold_ranks == 0) {
    return no_figure("no iteration of training is shown");
  }
  if (cold.warm_iterations == 0) {
    return no_figure("only the cold iteration is shown, so there is nothing to set it against");
  }
  FigureColumn call = text_column("call", "op and group");
  FigureColumn when = text_column("when", "when");
  FigureColumn calls = number_column("calls_per_iteration", "calls per iteration");
  FigureColumn message = number_column("message_per_iteration_bytes", "message bytes per iteration", "bytes");
  FigureColumn time = number_column("time_per_iteration_ns", "time in calls per iteration", "ns");
  FigureColumn p50 = number_column("p50_ns", "P50 of a call", "ns");
  FigureColumn p95 = number_column("p95_ns", "P95 of a call", "ns");
  const auto warm_iterations = static_cast<double>(cold.warm_iterations);
  bool has_time = false;
  for (const ColdRow& row : cold.rows) {
    const std::string label = call_label(input.trace(), row.kind, row.name, row.axis, row.group_size);
    const auto add = [&](const char* name, std::int64_t count, Bytes bytes,
                         const std::optional<TimeStats>& stats, double iterations) {
      texts(call).add(label);
      texts(when).add(name);
      numbers(calls).push_back(static_cast<double>(count) / iterations);
      numbers(message).push_back(static_cast<double>(bytes.value) / iterations);
      numbers(time).push_back(nanoseconds_or_none(stats, &TimeStats::total) / iterations);
      numbers(p50).push_back(nanoseconds_or_none(stats, &TimeStats::p50));
      numbers(p95).push_back(nanoseconds_or_none(stats, &TimeStats::p95));
      has_time = has_time || stats.has_value();
    };
    add("cold", row.cold_calls, row.cold_message, row.cold, 1);
    add("warm, mean", row.warm_calls, row.warm_message, row.warm, warm_iterations);
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "The first iteration of each rank{} against the mean of the {} after it, all ranks together. Calls and "
      "bytes "
      "that only the cold iteration has are setup; time that only it has is connections and warm-up.",
      cold.cold_iteration ? fmt::format(" (iteration {})", *cold.cold_iteration) : "",
      counted(cold.warm_iterations, "iterations"));
  figure.columns = {std::move(call), std::move(when), std::move(calls), std::move(message)};
  std::vector<std::string> toggles = {"calls_per_iteration", "message_per_iteration_bytes"};
  if (has_time) {
    for (FigureColumn* column : {&time, &p50, &p95}) {
      figure.columns.push_back(std::move(*column));
    }
    toggles.insert(toggles.begin(), {"time_per_iteration_ns", "p50_ns"});
  }
  figure.options = {{"category", std::string("call")},
                    {"series", std::string("when")},
                    {"value", toggles.front()},
                    {"stacked", false},
                    {"toggles", toggles}};
  figure.formulas = {"cold", "quantiles"};
  return figure;
}

}  // namespace commlens
