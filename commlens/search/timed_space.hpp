#pragma once
#include <span>
#include <string>

#include "commlens/search/space.hpp"
#include "commlens/simulate/run_basis.hpp"

namespace commlens {

/// Layouts whose times have the same coefficients: kinds of data parallelism that one framework's runs had.
struct TimedSpace {
  std::string framework;  // whose behaviour and coefficients
  TrainingRun base;       // its layout has the devices and the batch alone
  SearchSpace space;
  RunBasis basis;
};

/// The space that has layouts of this kind; the first where none does.
const TimedSpace& space_of(std::span<const TimedSpace> spaces, DataParallelKind kind);

/// The run as the space's framework runs it: layout, recomputation and switches stay.
TrainingRun run_in_space(TrainingRun run, const TimedSpace& space);

}  // namespace commlens
