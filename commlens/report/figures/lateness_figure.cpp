#include "commlens/report/figures/lateness_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

struct LatenessColumns {
  FigureColumn rank = whole_column("rank", "rank");
  FigureColumn which = text_column("which", "in");
  FigureColumn instances = whole_column("instances", "taken part in");
  FigureColumn last = whole_column("came_last", "came last");
  FigureColumn caused = whole_column("caused_ns", "others waited for it", "ns");
  FigureColumn waited = whole_column("waited_ns", "waited for others", "ns");

  void add(Rank who, const char* name, const Lateness& lateness) {
    if (lateness.instances == 0) {
      return;
    }
    wholes(rank).push_back(who.value);
    texts(which).add(name);
    wholes(instances).push_back(lateness.instances);
    wholes(last).push_back(lateness.last);
    wholes(caused).push_back(lateness.caused.count());
    wholes(waited).push_back(lateness.waited.count());
  }
};

}  // namespace

FigureResult lateness_figure(const FigureInput& input) {
  if (!input.waits) {
    return no_figure(no_times_reason(input.trace()));
  }
  const Stragglers& found = *input.waits;
  LatenessColumns columns;
  for (const RankLateness& lateness : found.ranks) {
    columns.add(lateness.rank, "collectives", lateness.collectives);
    columns.add(lateness.rank, "messages", lateness.messages);
  }
  if (columns.rank.rows() == 0) {
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
  figure.columns = {std::move(columns.rank), std::move(columns.which),  std::move(columns.instances),
                    std::move(columns.last), std::move(columns.caused), std::move(columns.waited)};
  figure.options = {{"category", std::string("rank")},
                    {"series", std::string("which")},
                    {"value", std::string("caused_ns")},
                    {"stacked", true},
                    {"toggles", std::vector<std::string>{"caused_ns", "waited_ns", "came_last"}}};
  figure.formulas = {"waits"};
  return figure;
}

}  // namespace commlens
