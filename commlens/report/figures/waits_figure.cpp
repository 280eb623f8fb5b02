#include "commlens/report/figures/waits_figure.hpp"

#include <limits>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

struct WaitColumns {
  FigureColumn call = text_column("call", "calls");
  FigureColumn part = text_column("part", "who waited");
  FigureColumn instances = whole_column("instances", "matched");
  FigureColumn waited = whole_column("waited_ns", "waited, all ranks", "ns");
  FigureColumn longest = number_column("longest_ns", "longest wait", "ns");

  void add(std::string_view label, std::string_view who, std::int64_t count, std::chrono::nanoseconds time,
           double longest_wait) {
    texts(call).add(label);
    texts(part).add(who);
    wholes(instances).push_back(count);
    wholes(waited).push_back(time.count());
    numbers(longest).push_back(longest_wait);
  }
};

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
  WaitColumns columns;
  for (const CollectiveWait& wait : found.collectives) {
    const std::string label =
        fmt::format("{} {}", name_of(wait.kind), group_text(wait.kind, wait.axis, wait.group_size));
    columns.add(label, "members", wait.instances, wait.waited, static_cast<double>(wait.longest.count()));
  }
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const PairWait& pair : found.pairs) {
    const std::string label = fmt::format("send {} to {}", pair.source.value, pair.destination.value);
    columns.add(label, "sender", pair.messages, pair.sender_waited, none);
    columns.add(label, "receiver", pair.messages, pair.receiver_waited, none);
  }
  if (columns.call.rows() == 0) {
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
  figure.columns = {std::move(columns.call), std::move(columns.part), std::move(columns.instances),
                    std::move(columns.waited), std::move(columns.longest)};
  figure.options = {{"category", std::string("call")},
                    {"series", std::string("part")},
                    {"value", std::string("waited_ns")},
                    {"stacked", true},
                    {"toggles", std::vector<std::string>{"waited_ns", "instances"}}};
  figure.formulas = {"waits"};
  return figure;
}

}  // namespace commlens
