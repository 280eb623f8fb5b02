#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per rank: the idle share of its iterations as a pipeline stage.
FigureResult bubble_figure(const FigureInput& input);

}  // namespace commlens
