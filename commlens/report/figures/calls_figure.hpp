#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Every call that differs between the two sides, those that are alike on one line.
FigureResult calls_figure(const FigureInput& input);

}  // namespace commlens
