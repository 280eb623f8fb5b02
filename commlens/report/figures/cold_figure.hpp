#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// The cold iteration against the warm ones: time per call and op.
FigureResult cold_figure(const FigureInput& input);

}  // namespace commlens
