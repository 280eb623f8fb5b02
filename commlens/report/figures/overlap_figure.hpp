#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per rank: communication that computing hid, and communication that was exposed.
FigureResult overlap_figure(const FigureInput& input);

}  // namespace commlens
