#pragma once
#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Time in calls per op, per group and together: durations added up, and what overlaps counted once.
FigureResult busy_figure(const FigureInput& input);

/// The time of all ranks together.
struct BusyTotal {
  CommunicationTime time;  // calls, sum and total
  std::chrono::nanoseconds span{};
  std::chrono::nanoseconds exposed{};
  bool knows_exposed = false;  // of every rank
};
BusyTotal busy_total(const OverlapTotals& totals);

}  // namespace commlens
