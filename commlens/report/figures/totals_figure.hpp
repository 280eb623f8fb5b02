#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Calls and bytes of one iteration, of initialisation, and of everything shown.
FigureResult totals_figure(const FigureInput& input);

}  // namespace commlens
