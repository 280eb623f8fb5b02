#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Time and bus bandwidth of measured calls (`bench`) against their size, with intervals.
FigureResult measured_figure(const FigureInput& input);

}  // namespace commlens
