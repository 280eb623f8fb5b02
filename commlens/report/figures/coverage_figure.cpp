#include "commlens/report/figures/coverage_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult coverage_figure(const FigureInput& input) {
  const Coverage& coverage = input.summary.coverage;
  Table table(columns({"what", Column{"count", "calls"}, "effect"}));
  const auto add = [&](std::string_view name, std::int64_t calls, std::string_view meaning) {
    if (calls > 0) {
      table.add({name, calls, meaning});
    }
  };
  add("calls shown", input.summary.calls, "all of these are counted");
  for (const UnclassifiedCalls& other : coverage.unclassified) {
    add(fmt::format("of kind other: {}", op_text(input.trace(), CommKind::other, other.name)), other.calls,
        "their wire bytes are not known");
  }
  add("without bytes", coverage.without_bytes, "counted as calls of 0 bytes");
  if (input.summary.time) {
    add("without a time", coverage.without_times, "not part of any time or bandwidth");
  }
  for (const auto& [reason, records] : coverage.skipped) {
    add(fmt::format("skipped: {}", reason), records, "not counted anywhere");
  }
  for (const auto& [reason, records] : coverage.assumed) {
    add(fmt::format("assumed: {}", reason), records, "the trace does not say it");
  }
  Figure figure;
  figure.caption =
      "What the numbers of this report cover. Skipped records and assumptions are of the whole trace.";
  if (coverage.averaged_times) {
    figure.notes.push_back(
        fmt::format("Times are {}, so times of single calls and overlap are not known.", k_averages_text));
  }
  figure.columns = figure_columns(table);
  if (figure.rows() == 0) {
    return no_figure("the trace has no calls, and no record was skipped");
  }
  return figure;
}

}  // namespace commlens
