#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Message sizes in classes of powers of two, over all ranks.
FigureResult sizes_figure(const FigureInput& input);

}  // namespace commlens
