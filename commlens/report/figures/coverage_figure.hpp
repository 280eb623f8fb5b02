#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Records and calls that the numbers do not cover: dropped, skipped, without a size, a kind or a time.
FigureResult coverage_figure(const FigureInput& input);

}  // namespace commlens
