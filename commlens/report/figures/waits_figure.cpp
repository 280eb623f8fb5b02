#include "commlens/report/figures/waits_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

std::string worst_text(const WaitInstance& worst) {
  return fmt::format(
      "The longest wait was in call {} of {} of iteration {} among {}: rank {} came last, the others waited "
      "{} in all.",
      worst.index, name_of(worst.kind), iteration_text(worst.iteration),
      counted(static_cast<std::int64_t>(worst.members.size()), "ranks"), worst.last.value,
      time_text(static_cast<double>(worst.waited.count())));
}

}  // namespace

FigureResult waits_figure(const FigureInput& input) {
  if (!input.waits) {
    return no_figure(no_times_reason(input.trace()));
  }
  const Stragglers& found = *input.waits;
  Table table(columns({Column{"call", "calls"}, Column{"part", "who waited"}, "matched",
                       Column{"waited_ns_all_ranks", "waited, all ranks"}, "longest_wait_ns"}));
  for (const CollectiveWait& wait : found.collectives) {
    const std::string label =
        fmt::format("{} {}", name_of(wait.kind), group_text(wait.kind, wait.axis, wait.group_size));
    table.add({label, "members", wait.instances, wait.waited, wait.longest});
  }
  for (const PairWait& pair : found.pairs) {
    const std::string label = fmt::format("send {} to {}", pair.source.value, pair.destination.value);
    table.add({label, "sender", pair.messages, pair.sender_waited, {}});
    table.add({label, "receiver", pair.messages, pair.receiver_waited, {}});
  }
  if (table.empty()) {
    return no_figure("no calls of different ranks could be matched");
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption =
      "How long ranks waited inside calls for the last of them to arrive, per collective; for messages, "
      "which side "
      "waited for the other.";
  if (!found.worst.empty()) {
    figure.caption += " " + worst_text(found.worst.front());
  }
  figure.columns = figure_columns(table);
  figure.options = bar_options("call", "part", true, {"waited_ns_all_ranks", "matched"});
  figure.formulas = {"waits"};
  return figure;
}

}  // namespace commlens
