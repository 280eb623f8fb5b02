#include "commlens/report/figures/lateness_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

void add(Table& table, Rank rank, const char* which, const Lateness& lateness) {
  if (lateness.instances > 0) {
    table.add({rank, which, lateness.instances, lateness.last, lateness.caused, lateness.waited});
  }
}

}  // namespace

FigureResult lateness_figure(const FigureInput& input) {
  if (!input.waits) {
    return no_figure(no_times_reason(input.trace()));
  }
  const Stragglers& found = *input.waits;
  Table table(
      columns({"rank", Column{"which", "in"}, Column{"matched", "taken part in"}, "came_last",
               Column{"caused_ns", "others waited for it"}, Column{"waited_ns", "waited for others"}}));
  for (const RankLateness& lateness : found.ranks) {
    add(table, lateness.rank, "collectives", lateness.collectives);
    add(table, lateness.rank, "messages", lateness.messages);
  }
  if (table.empty()) {
    return no_figure("no calls of different ranks could be matched");
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "For each rank, how long others waited for it because it arrived last, and how long it waited for "
      "others, over {} and {} that were matched. By the ranks' clocks: a rank that waits for a slow one "
      "elsewhere comes last too.{}",
      counted(found.instances, "collectives"), counted(found.messages, "messages"),
      found.clock_error
          ? fmt::format(" Clocks of two ranks of one machine may differ by up to {}; waits below that mean "
                        "nothing.",
                        time_text(static_cast<double>(found.clock_error->count())))
          : "");
  if (found.incomplete > 0) {
    figure.notes.push_back(fmt::format("{} lack the call of a member and are not counted.",
                                       counted(found.incomplete, "collectives or messages")));
  }
  figure.columns = figure_columns(table);
  figure.options = bar_options("rank", "which", true, {"caused_ns", "waited_ns", "came_last"});
  figure.formulas = {"waits"};
  return figure;
}

}  // namespace commlens
