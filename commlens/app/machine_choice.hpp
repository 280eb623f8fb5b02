#pragma once
#include <optional>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/simulate/run_calibration.hpp"

namespace commlens {

/// The machine that another borrows its calibrations from, if any. Fails where it is not known.
Result<std::optional<Machine>> lender_of(const Machine& machine);

/// The library that carries calls out: as named ("nccl:2.27.3"), else RCCL on AMD's devices and NCCL on
/// others, of the release that the machine, or its lender where it has none, was calibrated with.
Result<Library> library_on(const std::string& name, const Machine& machine, const Machine* lender);

/// The coefficients in a file that calibrate --rows has written; of an empty name those that the program
/// brings.
Result<RunCalibration> run_calibration(const std::string& file);

}  // namespace commlens
