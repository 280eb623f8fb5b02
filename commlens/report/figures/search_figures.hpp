#pragma once
#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// What was searched for, on what, and how many layouts there were.
FigureResult search_figure(const FigureInput& input);

/// The fastest layouts, and the parts of their time.
FigureResult layouts_figure(const FigureInput& input);

/// Time against memory of the layouts that no other beats in both.
FigureResult front_figure(const FigureInput& input);

/// Closed form against simulation of the layouts that were simulated.
FigureResult retimed_figure(const FigureInput& input);

/// The fastest layout on each number of devices.
FigureResult scaling_figure(const FigureInput& input);

}  // namespace commlens
