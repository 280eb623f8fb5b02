#include "commlens/report/figures/runs_figure.hpp"

#include <limits>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult runs_figure(const FigureInput& input) {
  if (input.all.size() < 2) {
    return no_figure("one trace or configuration was given");
  }
  Table table(columns({{"trace"},
                       {"trace_source"},
                       {"rank_count"},
                       {"iteration_count"},
                       {"calls_all_ranks"},
                       {"message_bytes_all_ranks"},
                       {"wire_bytes_all_ranks", "wire bytes, all ranks"},
                       {"time_ns_all_ranks", "time in calls"},
                       {"p50_ns", "P50 of a call"}}));
  std::int64_t without_wire = 0;
  SummaryOptions options;
  options.iterations = input.iterations;
  for (const NamedTrace& run : input.all) {
    const Summary summary = summarise(*run.trace, options);
    const std::int64_t wire = wire_or_none(summary);
    table.add({run.name, name_of(run.trace->provenance.source), summary.ranks, summary.iterations.size(),
               summary.calls, summary.message, wire == k_no_value ? Cell() : Cell(wire),
               summary.time ? Cell(summary.time->total) : Cell(),
               summary.time ? Cell(summary.time->p50) : Cell()});
    without_wire = saturating_sum(without_wire, summary.calls_without_wire);
  }
  Figure figure;
  figure.caption =
      "What was given, over all ranks and the iterations shown. Every other part of this report is about the "
      "first "
      "one, unless it says otherwise.";
  figure.columns = figure_columns(table);
  if (without_wire > 0) {
    figure.notes.push_back(fmt::format("Wire bytes are without {}, of which they are not known.",
                                       counted(without_wire, "calls")));
  }
  figure.formulas = {"message-bytes", "wire-bytes", "quantiles"};
  return figure;
}

}  // namespace commlens
