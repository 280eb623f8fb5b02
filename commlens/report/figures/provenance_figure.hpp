#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Where each trace comes from, and whether its rules were measured.
FigureResult provenance_figure(const FigureInput& input);

}  // namespace commlens
