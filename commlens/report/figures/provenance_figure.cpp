#include "commlens/report/figures/provenance_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

std::string recorder_text(const Provenance& provenance) {
  if (!provenance.recorder) {
    return "";
  }
  const RecorderCost& recorder = *provenance.recorder;
  return fmt::format("clock {}, rate error at most {} ppb, {} ns per recorded call, {} dropped",
                     recorder.clock.empty() ? "unknown" : recorder.clock, recorder.clock_error_ppb,
                     recorder.cost_per_call.count(), counted(recorder.dropped, "calls"));
}

}  // namespace

FigureResult provenance_figure(const FigureInput& input) {
  Table table(columns({"trace", "what", "value"}));
  for (const NamedTrace& run : input.all) {
    const Provenance& provenance = run.trace->provenance;
    const auto add = [&](std::string_view name, std::string_view text) {
      if (!text.empty()) {
        table.add({run.name, name, text});
      }
    };
    add("source", name_of(provenance.source));
    add("producer", provenance.producer);
    add("description", provenance.description);
    add("rules", provenance.framework);
    if (provenance.source == Source::predicted) {
      add("rules measured", provenance.verified
                                ? "yes: every rule used was compared with a recorded run"
                                : "no: some rules were read in the source and never measured");
    }
    add("sizes count", provenance.accounting == Accounting::messages
                           ? "message bytes (docs/volumes.md)"
                           : "what DeepSpeed's comms logger prints");
    add("recorder", recorder_text(provenance));
  }
  Figure figure;
  figure.caption = "Where the numbers come from.";
  figure.columns = figure_columns(table);
  if (!input.unverified.empty()) {
    figure.notes.push_back(fmt::format("Not measured: {}.", fmt::join(input.unverified, "; ")));
  }
  return figure;
}

}  // namespace commlens
