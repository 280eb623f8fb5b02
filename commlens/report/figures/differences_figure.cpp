#include "commlens/report/figures/differences_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"

namespace commlens {
namespace {

/// Rows of the table: one per cause, axis and op.
class Rows {
 public:
  void add(std::string_view cause, const ExplainedRow& row, std::string_view why) {
    texts(cause_).add(cause);
    texts(op_).add(name_of(row.kind));
    texts(axis_).add(row.axis == Axis::unknown ? "" : name_of(row.axis));
    wholes(calls_a_).push_back(row.calls_a);
    wholes(calls_b_).push_back(row.calls_b);
    wholes(message_a_).push_back(row.message_a.value);
    wholes(message_b_).push_back(row.message_b.value);
    texts(why_).add(why);
    texts(source_).add(row.source);
  }
  std::vector<FigureColumn> take() {
    return {std::move(cause_),     std::move(op_),      std::move(axis_),
            std::move(calls_a_),   std::move(calls_b_), std::move(message_a_),
            std::move(message_b_), std::move(why_),     std::move(source_)};
  }

 private:
  FigureColumn cause_ = text_column("cause", "cause");
  FigureColumn op_ = text_column("op", "op");
  FigureColumn axis_ = text_column("axis", "axis");
  FigureColumn calls_a_ = whole_column("calls_only_a", "calls only in A");
  FigureColumn calls_b_ = whole_column("calls_only_b", "calls only in B");
  FigureColumn message_a_ = whole_column("message_only_a_bytes", "message bytes only in A", "bytes");
  FigureColumn message_b_ = whole_column("message_only_b_bytes", "message bytes only in B", "bytes");
  FigureColumn why_ = text_column("why", "why");
  FigureColumn source_ = text_column("source", "source of the rule");
};

}  // namespace

FigureResult differences_figure(const FigureInput& input) {
  if (!input.compared) {
    return no_figure(input.not_compared);
  }
  if (!input.compared->explanation) {
    return no_figure("a printed log has no calls whose rules could be named");
  }
  const Explanation& explanation = *input.compared->explanation;
  Rows rows;
  for (const ExplainedGroup& group : explanation.explained) {
    for (const ExplainedRow& row : group.rows) {
      rows.add(group.cause.title, row, group.cause.sentence);
    }
  }
  for (const ExplainedRow& row : explanation.unexplained) {
    rows.add("unexplained", row, "");
  }
  Figure figure;
  figure.columns = rows.take();
  if (figure.rows() == 0) {
    return no_figure("the two sides are equal");
  }
  figure.caption = fmt::format(
      "What only one side has, over all ranks that both have, grouped by the rule or setting that causes it; "
      "A is {}, B "
      "is {}. {}",
      input.compared->a.name, input.compared->b.name,
      explanation.complete() ? "Nothing is left unexplained." : "What nothing explains stands last.");
  figure.notes = explanation.notes;
  figure.formulas = {"message-bytes"};
  return figure;
}

}  // namespace commlens
