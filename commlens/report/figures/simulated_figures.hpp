#pragma once
#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// The head of a simulation: time, rate, memory, each with its interval.
FigureResult simulated_figure(const FigureInput& input);

/// Where the time of the simulated iteration goes: computing, exposed calls by op and axis, waiting.
FigureResult simulated_time_figure(const FigureInput& input);

}  // namespace commlens
