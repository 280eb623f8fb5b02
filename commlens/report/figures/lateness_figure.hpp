#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per rank: how long others waited for it, and it for others.
FigureResult lateness_figure(const FigureInput& input);

}  // namespace commlens
