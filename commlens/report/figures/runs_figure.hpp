#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// A line for each trace given.
FigureResult runs_figure(const FigureInput& input);
/// Of three or more: each op and group of one iteration, side by side.
FigureResult runs_by_op_figure(const FigureInput& input);

/// What an iteration of a trace counts: of a prediction one iteration, of others the mean of those that are
/// not initialisation.
struct IterationCount {
  std::pair<Iteration, Iteration> iterations;
  std::int64_t count = 1;
};
/// Absent where the iterations of some calls are not known.
std::optional<IterationCount> iteration_count(const Trace& trace,
                                              const std::optional<std::pair<Iteration, Iteration>>& shown);

}  // namespace commlens
