#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Per rank: its time between calls, and whether that marks it as slow.
FigureResult slow_ranks_figure(const FigureInput& input);

}  // namespace commlens
