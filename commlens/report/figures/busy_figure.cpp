#include "commlens/report/figures/busy_figure.hpp"

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// What a pair of rows is about.
struct BusyPart {
  std::string label;
  std::string op;    // empty: of all
  std::string axis;  // empty: of all
};

void add_busy(Table& table, const BusyPart& part, const CommunicationTime& time,
              std::chrono::nanoseconds whole) {
  for (const auto& [which, spent] :
       {std::pair("added up", time.sum), std::pair("overlaps counted once", time.total)}) {
    table.add(
        {part.label, which, time.calls, spent, share_cell(spent.count(), whole.count()), part.op, part.axis});
  }
}

}  // namespace

BusyTotal busy_total(const OverlapTotals& totals) {
  BusyTotal all;
  all.knows_exposed = !totals.by_rank.empty();
  for (const OverlapTotal& rank : totals.by_rank) {
    const std::int64_t alike = rank.ranks.count();
    const auto add = [&](std::chrono::nanoseconds& into, std::chrono::nanoseconds spent) {
      into = std::chrono::nanoseconds(saturating_sum(into.count(), saturating_product(spent.count(), alike)));
    };
    all.time.calls = saturating_sum(all.time.calls, saturating_product(rank.time.calls, alike));
    add(all.time.sum, rank.time.sum);
    add(all.time.total, rank.time.total);
    add(all.span, rank.span);
    add(all.exposed, rank.time.exposed.value_or(std::chrono::nanoseconds{}));
    all.knows_exposed = all.knows_exposed && rank.time.exposed.has_value();
  }
  return all;
}

FigureResult busy_figure(const FigureInput& input) {
  if (!input.overlap) {
    return no_figure(no_times_reason(input.trace()));
  }
  const OverlapTotals& totals = *input.overlap;
  if (totals.by_op.empty()) {
    return no_figure("no call of the iterations shown has a time");
  }
  const BusyTotal all = busy_total(totals);
  Table table(
      columns({Column{"part", "calls of"}, Column{"which", "durations"},
               Column{"calls_all_ranks", "calls, all ranks"}, Column{"time_ns_all_ranks", "time, all ranks"},
               Column{"part_share", "of the ranks' time"}, "op", "axis"}));
  for (const OverlapTotal& row : totals.by_op) {
    const std::string op = op_text(input.trace(), row.kind, row.name);
    add_busy(table, {op, op, ""}, row.time, all.span);
  }
  for (const OverlapTotal& row : totals.by_axis) {
    const CommKind kind = row.is_pair ? CommKind::send : CommKind::all_reduce;
    const std::string group = group_text(kind, row.axis, row.group_size);
    const std::string label = fmt::format("{}{}", row.is_pair ? "messages " : "groups ", group);
    add_busy(table, {label, "", std::string(name_of(row.axis))}, row.time, all.span);
  }
  add_busy(table, {"everything", "", ""}, all.time, all.span);
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "Calls of a rank that are under way at the same time overlap: added up, their durations are more than "
      "the "
      "time that passes. Added up all calls take {}; with what overlaps counted once {}, which is {} of the "
      "{} "
      "from the first start to the last end of the iterations, all ranks together.",
      time_text(static_cast<double>(all.time.sum.count())),
      time_text(static_cast<double>(all.time.total.count())),
      percent(all.time.total.count(), all.span.count()), time_text(static_cast<double>(all.span.count())));
  if (totals.has_skipped) {
    figure.notes.emplace_back("Initialisation and unknown iterations are skipped.");
  }
  figure.columns = figure_columns(table, {"op", "axis"});
  figure.options = bar_options("part", "which", false, {"time_ns_all_ranks", "part_share"});
  figure.formulas = {"overlap"};
  return figure;
}

}  // namespace commlens
