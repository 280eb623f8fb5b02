#pragma once
#include <memory>

#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/cli/train_flags.hpp"

namespace commlens {

/// Trains, records, compares with the prediction and prints it all: `differs` when the two do. Under an MPI
/// launcher every process calls it, and one of them prints. Throws SystemError when a rank fails.
Result<ExitCode> run_training(Console& console, const TrainFlags& flags);

}  // namespace commlens
