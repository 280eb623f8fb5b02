#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// The traces given, one line each.
FigureResult runs_figure(const FigureInput& input);

}  // namespace commlens
