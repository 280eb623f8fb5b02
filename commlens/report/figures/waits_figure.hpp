#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per collective and pair of ranks: the time that ranks waited for the last one to arrive.
FigureResult waits_figure(const FigureInput& input);

}  // namespace commlens
