#include "commlens/report/figures/prediction_figure.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

struct Volume {
  std::int64_t calls = 0;
  Bytes message;
};

/// Label of a call (its kind first, so that equal kinds are adjacent) -> volumes of A and B.
using Volumes = std::map<std::pair<CommKind, std::string>, std::pair<Volume, Volume>>;

/// Adds one side. Groups are labelled without their axis, which a recording may not have.
void add_side(Volumes& volumes, const Trace& trace, const Comparison& comparison,
              Volume std::pair<Volume, Volume>::* side) {
  SummaryOptions options;
  options.iterations = {comparison.iterations.front(), comparison.iterations.back()};
  options.by_iteration = true;  // compared iterations need not be consecutive
  for (const SummaryRow& row : summary_rows(trace, options)) {
    const bool is_compared = std::binary_search(comparison.iterations.begin(), comparison.iterations.end(),
                                                row.iteration.value_or(k_unknown_iteration));
    if (row.kind == CommKind::barrier || !is_compared) {
      continue;
    }
    const std::string label = call_label(trace, row.kind, row.name, Axis::unknown, row.group_size);
    Volume& volume = volumes[{row.kind, label}].*side;
    volume.calls = saturating_sum(volume.calls, row.calls);
    volume.message = saturating_sum(volume.message, row.message);
  }
}

Volumes volumes_of(const ComparedTraces& compared, const Comparison& comparison) {
  Volumes volumes;
  add_side(volumes, *compared.a.trace, comparison, &std::pair<Volume, Volume>::first);
  add_side(volumes, *compared.b.trace, comparison, &std::pair<Volume, Volume>::second);
  return volumes;
}

Volumes volumes_of(const std::vector<VolumeDifference>& rows) {
  Volumes volumes;
  for (const VolumeDifference& row : rows) {
    const std::string label = row.axis == Axis::unknown
                                  ? std::string(name_of(row.kind))
                                  : fmt::format("{} {}", name_of(row.kind), name_of(row.axis));
    volumes[{row.kind, label}] = {{row.calls_a, row.message_a}, {row.calls_b, row.message_b}};
  }
  return volumes;
}

/// One row per call and side, as the drawer of grouped bars wants them.
Figure bars_of(const Volumes& volumes, const std::string& a, const std::string& b) {
  Table table(columns({"call", "side", "calls_all_ranks", "message_bytes_all_ranks"}));
  for (const auto& [key, sides] : volumes) {
    for (const auto& [name, volume] : {std::pair(&a, &sides.first), std::pair(&b, &sides.second)}) {
      table.add({key.second, *name, volume->calls, volume->message});
    }
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.columns = figure_columns(table);
  figure.options = bar_options("call", "side", false, {"message_bytes_all_ranks", "calls_all_ranks"});
  figure.formulas = {"message-bytes"};
  return figure;
}

/// A printed log has counts per op and printed size.
Figure logged_figure(const LoggedComparison& logged, const std::string& log, const std::string& other) {
  Table table(columns({Column{"call", "op and printed size"}, "side", "calls_rank_0"}));
  for (const LoggedRow& row : logged.rows) {
    const std::string label = fmt::format("{} {}", name_of(row.kind), to_text(row.size));
    for (const auto& [name, count] : {std::pair(&log, row.logged), std::pair(&other, row.predicted)}) {
      table.add({label, *name, count});
    }
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "Calls of rank 0 per op and printed size. {} of {} sizes have as many calls as expected for {} {} of "
      "training.",
      logged.exact_rows, logged.rows.size(), counted(logged.iterations, "iterations"),
      logged.iterations_fitted ? "(the number that fits the log best)" : "(as asked)");
  figure.columns = figure_columns(table);
  figure.options = bar_options("call", "side", false, {"calls_rank_0"});
  return figure;
}

/// Names of the sides in charts, made distinct if they are equal.
std::pair<std::string, std::string> side_names(const ComparedTraces& compared) {
  const auto name = [](const NamedTrace& side) {
    return fmt::format("{} ({})", side.name, name_of(side.trace->provenance.source));
  };
  const std::string a = name(compared.a);
  const std::string b = name(compared.b);
  return a == b ? std::pair("A: " + a, "B: " + b) : std::pair(a, b);
}

}  // namespace

FigureResult prediction_figure(const FigureInput& input) {
  if (!input.compared) {
    return no_figure(input.not_compared);
  }
  const ComparedTraces& compared = *input.compared;
  const auto [a, b] = side_names(compared);
  if (const auto* logged = std::get_if<LoggedComparison>(&compared.result)) {
    const bool a_is_log = is_printed_log(*compared.a.trace);
    return logged_figure(*logged, a_is_log ? a : b, a_is_log ? b : a);
  }
  if (const auto* volumes = std::get_if<std::vector<VolumeDifference>>(&compared.result)) {
    Figure figure = bars_of(volumes_of(*volumes), a, b);
    figure.caption = fmt::format(
        "Calls and message bytes per op and axis of one iteration, over the ranks that both sides have. One "
        "side knows volumes rather than calls, so only the bytes can be compared: they {}.",
        all_equal(*volumes) ? "are equal" : "differ");
    return figure;
  }
  const auto& comparison = std::get<Comparison>(compared.result);
  Figure figure = bars_of(volumes_of(compared, comparison), a, b);
  figure.caption = fmt::format(
      "Calls and message bytes of both sides over all ranks, {}; barriers are skipped. Compared call by "
      "call, {}.",
      iterations_label(comparison.iterations), verdict_line(comparison, false));
  if (comparison.ranks_only_a + comparison.ranks_only_b > 0) {
    figure.notes.push_back(
        fmt::format("{} of A and {} of B are not in the other side; the bars hold them, the "
                    "comparison call by call does not.",
                    counted(comparison.ranks_only_a, "ranks"), counted(comparison.ranks_only_b, "ranks")));
  }
  return figure;
}

}  // namespace commlens
