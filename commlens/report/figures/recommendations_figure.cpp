#include "commlens/report/figures/recommendations_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult recommendations_figure(const FigureInput& input) {
  if (!input.advice) {
    return no_figure(input.not_advised);
  }
  if (input.advice->recommended.empty()) {
    return no_figure("no setting that was tried would save enough to be worth a change");
  }
  Table table(
      columns({"title", "reason", "flag", "setting", "calls_saved_per_rank", "message_bytes_saved_per_rank",
               "wire_bytes_saved_per_rank", "memory_added_bytes_per_rank", "time_saved_ns"}));
  bool any_time = false;
  for (const Recommendation& change : input.advice->recommended) {
    any_time = any_time || change.time_saved.has_value();
    table.add(
        {change.required ? change.title + " (required: the job does not fit)" : change.title,
         change.verified ? change.reason : change.reason + " (predicted by rules that were not measured)",
         change.flag, change.setting, change.calls_saved(), change.message_saved(), change.wire_saved(),
         change.memory_added(), change.time_saved});
  }
  Figure figure;
  figure.caption =
      "Settings to change one at a time, and what each saves per iteration on the rank that sends most, "
      "predicted by "
      "planning the job again. Savings of several do not add up; negative numbers are costs.";
  figure.columns = figure_columns(any_time ? table : table.remove({"time_saved_ns"}));
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
