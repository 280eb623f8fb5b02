#include "commlens/report/figures/overlap_figure.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/timing_report.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/summary/overlap_totals.hpp"

namespace commlens {
namespace {

/// A row for a part of a rank's time.
void add(Table& table, const std::string& who, const char* part, std::chrono::nanoseconds spent,
         std::chrono::nanoseconds whole) {
  table.add(
      {who, part, spent,
       static_cast<double>(spent.count()) / static_cast<double>(std::max<std::int64_t>(whole.count(), 1))});
}

bool has_iteration(const std::vector<IterationOverlap>& rows, Iteration iteration) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const IterationOverlap& row) { return row.iteration == iteration; });
}

std::string caption_of(double share, bool all_know, std::size_t ranks) {
  return all_know
             ? fmt::format(
                   "Where the time of each rank's iterations went. Over all ranks {:.1f} % of it is exposed "
                   "communication: in calls, and not computing.",
                   100 * share)
             : fmt::format(
                   "How much of each rank's iterations was spent in calls: {:.1f} % over all ranks. The "
                   "trace "
                   "does not say when {} computed, so the overlap with computing is not known.",
                   100 * share, ranks == 1 ? "the rank" : "every rank");
}

}  // namespace

FigureResult overlap_figure(const FigureInput& input) {
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  std::vector<IterationOverlap> rows =
      communication_overlap(input.trace(), {.iterations = input.iterations, .rank = {}});
  const bool has_init = has_iteration(rows, k_init_iteration);
  const bool has_unknown = has_iteration(rows, k_unknown_iteration);
  rows = of_training(std::move(rows));
  const std::vector<OverlapTotal> ranks = overlap_by_rank(rows);
  if (ranks.empty()) {
    return no_figure("no call of the iterations shown has a time");
  }
  Table table(columns({Column{"ranks_text", "rank"}, "part", "part_ns", "part_share"}));
  bool all_know = true;
  std::int64_t exposed = 0;
  std::int64_t length = 0;
  for (const OverlapTotal& rank : ranks) {
    const std::string who = ranks_label(rank.ranks);
    const std::int64_t alike = rank.ranks.count();
    length = saturating_sum(length, saturating_product(rank.span.count(), alike));
    const std::chrono::nanoseconds in_calls = rank.time.exposed.value_or(rank.time.total);
    exposed = saturating_sum(exposed, saturating_product(in_calls.count(), alike));
    if (rank.time.exposed && rank.time.overlapped && rank.compute && rank.idle) {
      add(table, who, "computing only", *rank.compute - *rank.time.overlapped, rank.span);
      add(table, who, "overlapped communication", *rank.time.overlapped, rank.span);
      add(table, who, "exposed communication", *rank.time.exposed, rank.span);
      add(table, who, "neither", *rank.idle, rank.span);
    } else {
      all_know = false;
      add(table, who, "communication", rank.time.total, rank.span);
      add(table, who, "not in a call", rank.span - rank.time.total, rank.span);
    }
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  const double share = static_cast<double>(exposed) / static_cast<double>(std::max<std::int64_t>(length, 1));
  figure.caption = caption_of(share, all_know, ranks.size());
  if (has_init && !has_iteration(rows, k_init_iteration)) {
    figure.notes.emplace_back("Initialisation is skipped.");
  }
  if (has_unknown && !has_iteration(rows, k_unknown_iteration)) {
    figure.notes.emplace_back("Calls and computing of unknown iterations are skipped.");
  }
  if (all_know && input.trace().provenance.source == Source::simulated) {
    figure.notes.push_back(fmt::format("{}.", k_simulated_exposed));
  }
  if (all_know && input.trace().provenance.progress == false) {
    figure.notes.emplace_back(
        "Transport without progress: overlap not meaningful (data moved only while a rank waited for them).");
  }
  figure.columns = figure_columns(table);
  figure.options = bar_options("ranks_text", "part", true, {"part_ns", "part_share"});
  figure.formulas = {"overlap"};
  return figure;
}

}  // namespace commlens
