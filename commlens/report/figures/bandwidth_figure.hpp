#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Bus bandwidth of calls against their message size.
FigureResult bandwidth_figure(const FigureInput& input);

}  // namespace commlens
