#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Properties and totals of the trace, one line each.
FigureResult overview_figure(const FigureInput& input);

}  // namespace commlens
