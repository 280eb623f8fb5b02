#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Both sides of a comparison per op: calls and bytes (docs/report.md says over what).
FigureResult prediction_figure(const FigureInput& input);

}  // namespace commlens
