#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Calls, message and wire bytes and time per op, group and phase, over all ranks.
FigureResult breakdown_figure(const FigureInput& input);
/// The same of initialisation, where it is apart.
FigureResult init_breakdown_figure(const FigureInput& input);

}  // namespace commlens
