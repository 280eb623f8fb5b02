#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Calls, bytes and time per iteration and op, over all ranks.
FigureResult iterations_figure(const FigureInput& input);

}  // namespace commlens
