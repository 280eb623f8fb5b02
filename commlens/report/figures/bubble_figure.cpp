#include "commlens/report/figures/bubble_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/summary/bubble.hpp"

namespace commlens {
namespace {

std::string shape_text(const PipelineShape& shape) {
  return fmt::format(
      " The messages show {}, {} and {} a rank: {:.1f} % is the least such a pipeline can have when all "
      "stages cost the same and messages nothing.",
      counted(shape.stages, "stages"), counted(shape.micro_batches, "micro-batches"),
      counted(shape.chunks, "chunks"), 100 * shape.ideal_bubble());
}

}  // namespace

FigureResult bubble_figure(const FigureInput& input) {
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  const Bubbles bubbles = pipeline_bubbles(input.trace(), {.iterations = input.iterations, .rank = {}});
  if (bubbles.rows.empty()) {
    return no_figure("there are no pipeline messages with times");
  }
  FigureColumn rank = text_column("rank", "rank");
  FigureColumn iteration = whole_column("iteration", "iteration");
  FigureColumn bubble = whole_column("bubble_ns", "bubble", "ns");
  FigureColumn share = number_column("bubble_share", "share of the iteration", "share");
  FigureColumn length = whole_column("iteration_ns", "iteration takes", "ns");
  const bool knows_idle = std::all_of(bubbles.rows.begin(), bubbles.rows.end(),
                                      [](const PipelineBubble& row) { return row.idle.has_value(); });
  for (const PipelineBubble& row : bubbles.rows) {
    texts(rank).add(ranks_label(row.ranks));
    wholes(iteration).push_back(row.iteration);
    wholes(bubble).push_back(row.bubble().count());
    numbers(share).push_back(static_cast<double>(row.bubble().count()) /
                             static_cast<double>(std::max<std::int64_t>(row.span.count(), 1)));
    wholes(length).push_back(row.span.count());
  }
  Figure figure;
  figure.kind = FigureKind::lines;
  figure.caption = "Time in which a stage of the pipeline had nothing to do, per rank and iteration.";
  if (!knows_idle) {
    figure.caption +=
        " Where the trace does not say when a rank computed, the time in sends and receives stands for it: "
        "an upper bound.";
  }
  figure.caption += bubbles.shape ? shape_text(*bubbles.shape) : "";
  figure.columns = {std::move(rank), std::move(iteration), std::move(bubble), std::move(share),
                    std::move(length)};
  figure.options = {{"x", std::string("iteration")},
                    {"series", std::string("rank")},
                    {"value", std::string("bubble_share")},
                    {"toggles", std::vector<std::string>{"bubble_share", "bubble_ns"}}};
  figure.formulas = {"bubble"};
  return figure;
}

}  // namespace commlens
