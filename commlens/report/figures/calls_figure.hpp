#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Every call that differs between the two sides; equal differences share a line.
FigureResult calls_figure(const FigureInput& input);

}  // namespace commlens
