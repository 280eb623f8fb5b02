#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// First calls of ranks on their groups, compared with later calls of the same op, sizes and group.
FigureResult first_calls_figure(const FigureInput& input);

}  // namespace commlens
