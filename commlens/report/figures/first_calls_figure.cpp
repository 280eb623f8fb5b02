#include "commlens/report/figures/first_calls_figure.hpp"

#include <algorithm>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult first_calls_figure(const FigureInput& input) {
  const std::vector<FirstCallRow>& rows = input.summary.cold.first_calls;
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  if (input.trace().provenance.source == Source::simulated) {
    return no_figure("simulated iterations are steady ones; no call of them makes connections");
  }
  if (std::none_of(rows.begin(), rows.end(), [](const FirstCallRow& row) { return row.compared > 0; })) {
    return no_figure("no first call of a group has a later one alike");
  }
  Table table(columns(
      {"call", Column{"which", "calls"}, Column{"compared_calls_all_ranks", "first calls compared"},
       Column{"mean_ns", "mean time of a call"}, Column{"lost_ns_all_ranks", "excess, all first calls"}}));
  for (const FirstCallRow& row : rows) {
    if (row.compared == 0) {
      continue;
    }
    const std::string label = call_label(input.trace(), row.kind, row.name, row.axis, row.group_size);
    const auto mean = [&](std::chrono::nanoseconds sum) {
      return static_cast<double>(sum.count()) / static_cast<double>(row.compared);
    };
    table.add({label, "first on a group", row.compared, mean(row.compared_time),
               row.compared_time - row.later_time});
    table.add({label, "later ones alike", row.compared, mean(row.later_time), {}});
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption =
      "The first call of each rank on each group, which makes connections, against the mean of its later "
      "calls with the "
      "same op, sizes and group. First calls without such a later call are skipped.";
  figure.columns = figure_columns(table);
  figure.options = bar_options("call", "which", false, {"mean_ns"});
  figure.formulas = {"first-calls"};
  return figure;
}

}  // namespace commlens
