#include "commlens/report/figures/runs_figure.hpp"

#include <limits>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/figures/labels.hpp"

namespace commlens {

FigureResult runs_figure(const FigureInput& input) {
  if (input.all.size() < 2) {
    return no_figure("one trace or configuration was given");
  }
  FigureColumn name = text_column("name", "trace");
  FigureColumn source = text_column("source", "source");
  FigureColumn ranks = whole_column("ranks", "ranks");
  FigureColumn iterations = whole_column("iterations", "iterations");
  FigureColumn calls = whole_column("calls", "calls");
  FigureColumn message = whole_column("message_bytes", "message bytes", "bytes");
  FigureColumn wire = whole_column("wire_bytes", "wire bytes, all ranks", "bytes");
  FigureColumn time = number_column("time_ns", "time in calls", "ns");
  std::int64_t without_wire = 0;
  FigureColumn p50 = number_column("p50_ns", "P50 of a call", "ns");
  SummaryOptions options;
  options.iterations = input.iterations;
  for (const NamedTrace& run : input.all) {
    const Summary summary = summarise(*run.trace, options);
    texts(name).add(run.name);
    texts(source).add(name_of(run.trace->provenance.source));
    wholes(ranks).push_back(summary.ranks);
    wholes(iterations).push_back(static_cast<std::int64_t>(summary.iterations.size()));
    wholes(calls).push_back(summary.calls);
    wholes(message).push_back(summary.message.value);
    wholes(wire).push_back(wire_or_none(summary));
    without_wire = saturating_sum(without_wire, summary.calls_without_wire);
    numbers(time).push_back(nanoseconds_or_none(summary.time, &TimeStats::total));
    numbers(p50).push_back(nanoseconds_or_none(summary.time, &TimeStats::p50));
  }
  Figure figure;
  figure.caption =
      "What was given, over all ranks and the iterations shown. Every other part of this report is about the "
      "first "
      "one, unless it says otherwise.";
  figure.columns = {std::move(name),       std::move(source), std::move(ranks),
                    std::move(iterations), std::move(calls),  std::move(message),
                    std::move(wire),       std::move(time),   std::move(p50)};
  if (without_wire > 0) {
    figure.notes.push_back(fmt::format("Wire bytes are without {}, of which they are not known.",
                                       counted(without_wire, "calls")));
  }
  figure.formulas = {"message-bytes", "wire-bytes", "quantiles"};
  return figure;
}

}  // namespace commlens
