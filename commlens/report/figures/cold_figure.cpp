#include "commlens/report/figures/cold_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult cold_figure(const FigureInput& input) {
  const ColdStart& cold = input.summary.cold;
  if (input.summary.coverage.averaged_times) {
    return no_figure(no_times_reason(input.trace()));
  }
  if (input.trace().provenance.source == Source::simulated) {
    return no_figure("simulated iterations are steady ones; none is cold");
  }
  if (cold.cold_ranks == 0) {
    return no_figure("no iteration of training is shown");
  }
  if (cold.warm_iterations == 0) {
    return no_figure("only the cold iteration is shown, so there is nothing to compare it with");
  }
  Table table(columns({"call", "when", "calls_per_iteration_all_ranks",
                       "message_bytes_per_iteration_all_ranks", "time_ns_per_iteration_all_ranks",
                       Column{"p50_ns", "P50 of a call"}, Column{"p95_ns", "P95 of a call"}}));
  const auto warm_iterations = static_cast<double>(cold.warm_iterations);
  bool has_time = false;
  for (const ColdRow& row : cold.rows) {
    const std::string label = call_label(input.trace(), row.kind, row.name, row.axis, row.group_size);
    const auto add = [&](const char* name, std::int64_t count, Bytes bytes,
                         const std::optional<TimeStats>& stats, double iterations) {
      table.add({label, name, static_cast<double>(count) / iterations,
                 static_cast<double>(bytes.value) / iterations,
                 stats ? Cell(static_cast<double>(stats->total.count()) / iterations) : Cell(),
                 stats ? Cell(stats->p50) : Cell(), stats ? Cell(stats->p95) : Cell()});
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
  std::vector<std::string> toggles = {"calls_per_iteration_all_ranks",
                                      "message_bytes_per_iteration_all_ranks"};
  if (has_time) {
    toggles.insert(toggles.begin(), {"time_ns_per_iteration_all_ranks", "p50_ns"});
  } else {
    table.remove({"time_ns_per_iteration_all_ranks", "p50_ns", "p95_ns"});
  }
  figure.columns = figure_columns(table);
  figure.options = bar_options("call", "when", false, toggles);
  figure.formulas = {"cold", "quantiles"};
  return figure;
}

}  // namespace commlens
