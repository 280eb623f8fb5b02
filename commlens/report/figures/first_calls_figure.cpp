#include "commlens/report/figures/first_calls_figure.hpp"

#include <algorithm>
#include <limits>

#include "commlens/report/figures/labels.hpp"

namespace commlens {

FigureResult first_calls_figure(const FigureInput& input) {
  const std::vector<FirstCallRow>& rows = input.summary.cold.first_calls;
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  if (std::none_of(rows.begin(), rows.end(), [](const FirstCallRow& row) { return row.compared > 0; })) {
    return no_figure("no first call of a group has a later one alike");
  }
  FigureColumn call = text_column("call", "op and group");
  FigureColumn which = text_column("which", "calls");
  FigureColumn compared = whole_column("calls", "first calls compared");
  FigureColumn mean = number_column("mean_ns", "mean time of a call", "ns");
  FigureColumn excess = number_column("excess_ns", "excess, all first calls", "ns");
  for (const FirstCallRow& row : rows) {
    if (row.compared == 0) {
      continue;
    }
    const std::string label = call_label(input.trace(), row.kind, row.name, row.axis, row.group_size);
    const auto add = [&](const char* name, std::chrono::nanoseconds time, double more) {
      texts(call).add(label);
      texts(which).add(name);
      wholes(compared).push_back(row.compared);
      numbers(mean).push_back(static_cast<double>(time.count()) / static_cast<double>(row.compared));
      numbers(excess).push_back(more);
    };
    add("first on a group", row.compared_time,
        static_cast<double>((row.compared_time - row.later_time).count()));
    add("later ones alike", row.later_time, std::numeric_limits<double>::quiet_NaN());
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption =
      "The first call of each rank on each group, which makes connections, against the mean of its later "
      "calls with the "
      "same op, sizes and group. First calls without a later one alike are left out.";
  figure.columns = {std::move(call), std::move(which), std::move(compared), std::move(mean),
                    std::move(excess)};
  figure.options = {{"category", std::string("call")},
                    {"series", std::string("which")},
                    {"value", std::string("mean_ns")},
                    {"stacked", false},
                    {"toggles", std::vector<std::string>{"mean_ns"}}};
  figure.formulas = {"first-calls"};
  return figure;
}

}  // namespace commlens
