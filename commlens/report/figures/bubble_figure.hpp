#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per rank: the part of its iterations in which a pipeline stage had nothing to do.
FigureResult bubble_figure(const FigureInput& input);

}  // namespace commlens
