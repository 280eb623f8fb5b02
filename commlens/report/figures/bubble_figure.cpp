#include "commlens/report/figures/bubble_figure.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/summary/bubble.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_rows = 20'000;  // what a page holds in addition to its other figures

std::string shape_text(const PipelineShape& shape) {
  return fmt::format(
      " The messages show {}, {} and {} a rank: {:.1f} % is the least such a pipeline can have when all "
      "stages cost the same and messages nothing.",
      counted(shape.stages, "stages"), counted(shape.micro_batches, "micro-batches"),
      counted(shape.chunks, "chunks"), 100 * shape.ideal_bubble());
}

/// Removes rows that do not fit: later iterations first, then later ranks of one iteration.
void limit_rows(std::vector<PipelineBubble>& rows, Figure& figure) {
  std::set<Iteration> iterations;
  std::set<RankRange> ranks;
  for (const PipelineBubble& row : rows) {
    iterations.insert(row.iteration);
    ranks.insert(row.ranks);
  }
  const std::size_t most = std::max<std::size_t>(1, k_most_rows / ranks.size());
  if (iterations.size() > most) {
    const Iteration first_skipped = *std::next(iterations.begin(), static_cast<std::ptrdiff_t>(most));
    std::erase_if(rows, [&](const PipelineBubble& row) { return row.iteration >= first_skipped; });
    figure.notes.push_back(fmt::format(
        "The first {} of {} iterations are shown; choose others with --iteration.", most, iterations.size()));
  }
  if (rows.size() > k_most_rows) {
    figure.notes.push_back(fmt::format("The first {} of {} ranks are shown.", k_most_rows, rows.size()));
    rows.resize(k_most_rows);
  }
}

/// Removes the rows of unknown iterations unless there are no others. Returns whether iterations are known.
bool keep_known_iterations(std::vector<PipelineBubble>& rows, Figure& figure) {
  const auto is_unknown = [](const PipelineBubble& row) { return row.iteration == k_unknown_iteration; };
  if (std::all_of(rows.begin(), rows.end(), is_unknown)) {
    return false;
  }
  if (std::erase_if(rows, is_unknown) > 0) {
    figure.notes.emplace_back("Calls whose iteration is unknown are skipped.");
  }
  return true;
}

/// One row per rank and iteration; where no iteration is known, one per rank.
void draw(const std::vector<PipelineBubble>& rows, bool knows_iterations, Figure& figure) {
  Table table(
      columns({Column{"ranks_text", "rank"}, "iteration", "bubble_ns",
               Column{"bubble_share", knows_iterations ? "share of the iteration" : "share of the trace"}}));
  for (const PipelineBubble& row : rows) {
    table.add({ranks_label(row.ranks), row.iteration, row.bubble(),
               static_cast<double>(row.bubble().count()) /
                   static_cast<double>(std::max<std::int64_t>(row.span.count(), 1))});
  }
  const std::vector<std::string> toggles = {"bubble_share", "bubble_ns"};
  if (knows_iterations) {
    figure.kind = FigureKind::lines;
    figure.columns = figure_columns(table);
    figure.options = {{"x", std::string("iteration")},
                      {"series", std::string("ranks_text")},
                      {"value", toggles.front()},
                      {"toggles", toggles}};
  } else {
    figure.kind = FigureKind::bars;
    figure.columns = figure_columns(table.remove({"iteration"}));
    figure.options = {
        {"category", std::string("ranks_text")}, {"value", toggles.front()}, {"toggles", toggles}};
  }
}

}  // namespace

FigureResult bubble_figure(const FigureInput& input) {
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  Bubbles bubbles = pipeline_bubbles(input.trace(), {.iterations = input.iterations, .rank = {}});
  if (bubbles.rows.empty()) {
    return no_figure("there are no pipeline messages with times");
  }
  Figure figure;
  const bool knows_iterations = keep_known_iterations(bubbles.rows, figure);
  limit_rows(bubbles.rows, figure);
  const bool knows_idle = std::all_of(bubbles.rows.begin(), bubbles.rows.end(),
                                      [](const PipelineBubble& row) { return row.idle.has_value(); });
  draw(bubbles.rows, knows_iterations, figure);
  figure.caption = knows_iterations
                       ? "Time in which a stage of the pipeline had nothing to do, per rank and iteration."
                       : "Time in which a stage of the pipeline had nothing to do, per rank; the trace does "
                         "not say which iteration a call is of.";
  if (!knows_idle) {
    figure.caption +=
        " Where the trace does not say when a rank computed, the time in sends and receives is used instead: "
        "an upper bound.";
  }
  figure.caption += bubbles.shape ? shape_text(*bubbles.shape) : "";
  figure.formulas = {"bubble"};
  return figure;
}

}  // namespace commlens
