#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What the trace is, and its totals: one line each.
FigureResult overview_figure(const FigureInput& input);

}  // namespace commlens
