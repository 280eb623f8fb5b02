#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What was given: the configuration of each input, setting by setting.
FigureResult configuration_figure(const FigureInput& input);

}  // namespace commlens
