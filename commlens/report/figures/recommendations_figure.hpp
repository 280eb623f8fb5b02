#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What to change in the job's settings, and what each change saves.
FigureResult recommendations_figure(const FigureInput& input);

}  // namespace commlens
