#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Recommended changes of the job's settings, with the savings of each.
FigureResult recommendations_figure(const FigureInput& input);

}  // namespace commlens
