#include "commlens/report/figures/recommendations_figure.hpp"

#include <limits>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"

namespace commlens {

FigureResult recommendations_figure(const FigureInput& input) {
  if (!input.advice) {
    return no_figure(input.not_advised);
  }
  if (input.advice->recommended.empty()) {
    return no_figure("no setting that was tried would save enough to be worth a change");
  }
  FigureColumn title = text_column("title", "change");
  FigureColumn reason = text_column("reason", "why");
  FigureColumn flag = text_column("flag", "flag");
  FigureColumn setting = text_column("setting", "setting");
  FigureColumn calls = whole_column("calls_saved", "calls saved");
  FigureColumn message = whole_column("message_saved_bytes", "message bytes saved", "bytes");
  FigureColumn wire = whole_column("wire_saved_bytes", "wire bytes saved", "bytes");
  FigureColumn memory = whole_column("memory_added_bytes", "memory added", "bytes");
  FigureColumn time = number_column("time_saved_ns", "time saved (estimate)", "ns");
  bool any_time = false;
  for (const Recommendation& change : input.advice->recommended) {
    texts(title).add(change.required ? change.title + " (required: the job does not fit)" : change.title);
    texts(reason).add(change.verified ? change.reason
                                      : change.reason + " (predicted by rules that were not measured)");
    texts(flag).add(change.flag);
    texts(setting).add(change.setting);
    wholes(calls).push_back(change.calls_saved());
    wholes(message).push_back(change.message_saved().value);
    wholes(wire).push_back(change.wire_saved().value);
    wholes(memory).push_back(change.memory_added().value);
    any_time = any_time || change.time_saved.has_value();
    numbers(time).push_back(change.time_saved ? static_cast<double>(change.time_saved->count())
                                              : std::numeric_limits<double>::quiet_NaN());
  }
  Figure figure;
  figure.caption =
      "Settings to change one at a time, and what each saves per iteration on the rank that sends most, "
      "predicted by "
      "planning the job again. Savings of several do not add up; negative numbers are costs.";
  figure.columns = {std::move(title), std::move(reason),  std::move(flag), std::move(setting),
                    std::move(calls), std::move(message), std::move(wire), std::move(memory)};
  if (any_time) {
    figure.columns.push_back(std::move(time));
  }
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
