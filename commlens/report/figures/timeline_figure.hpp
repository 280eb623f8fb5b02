#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// When each rank communicated and computed, in some of the iterations.
FigureResult timeline_figure(const FigureInput& input);

}  // namespace commlens
