#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Differences of the two sides by the cause that explains them, the unexplained ones last.
FigureResult differences_figure(const FigureInput& input);

}  // namespace commlens
