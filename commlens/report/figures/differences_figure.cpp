#include "commlens/report/figures/differences_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
FigureResult differences_figure(const FigureInput& input) {
  if (!input.compared) {
    return no_figure(input.not_compared);
  }
  if (!input.compared->explanation) {
    return no_figure("a printed log has no calls whose rules could be named");
  }
  const Explanation& explanation = *input.compared->explanation;
  Table table(columns({"cause", "op", "axis", "calls_only_a_all_ranks", "calls_only_b_all_ranks",
                       "message_bytes_only_a_all_ranks", "message_bytes_only_b_all_ranks", "why",
                       Column{"source", "source of the rule"}}));
  const auto add = [&](const std::string& cause, const ExplainedRow& row, const std::string& why) {
    table.add({cause, name_of(row.kind), row.axis == Axis::unknown ? Cell() : Cell(name_of(row.axis)),
               row.calls_a, row.calls_b, row.message_a, row.message_b, why, row.source});
  };
  for (const ExplainedGroup& group : explanation.explained) {
    for (const ExplainedRow& row : group.rows) {
      add(group.cause.title, row, group.cause.sentence);
    }
  }
  for (const ExplainedRow& row : explanation.unexplained) {
    add("unexplained", row, "");
  }
  Figure figure;
  figure.columns = figure_columns(table);
  if (figure.rows() == 0) {
    return no_figure("the two sides are equal");
  }
  figure.caption = fmt::format(
      "What only one side has, over all ranks that both have, grouped by the rule or setting that causes it; "
      "A is {}, B "
      "is {}. {}",
      input.compared->a.name, input.compared->b.name,
      explanation.complete() ? "Nothing is unexplained." : "Unexplained differences come last.");
  figure.notes = explanation.notes;
  figure.formulas = {"message-bytes"};
  return figure;
}

}  // namespace commlens
