#pragma once
#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// What the time and the memory of the fastest layout go to, in words.
FigureResult binding_figure(const FigureInput& input);

/// What one change of the fastest layout would give.
FigureResult changes_figure(const FigureInput& input);

}  // namespace commlens
