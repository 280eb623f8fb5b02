#pragma once
#include <span>
#include <string>
#include <string_view>

#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/run_calibration.hpp"

namespace commlens {

/// What a run's time is predicted from.
struct RunBasis {
  Coefficients coefficients;
  double spread = 0;        // of the logarithm: half of the 90 % interval
  std::string provenance;   // "calibrated on 170 runs: …", "borrowed from …", "uncalibrated: …"
  std::string family = "";  // whose coefficients these are; empty: no family's
};

/// A prediction is calibrated where its family is and has seen its precision, its kind of attention, half of
/// its sequence's length and, of several, models. Else it is borrowed: from a family of the device and the
/// framework on another network, of the framework on a device that is alike, on another one of the same
/// maker, or of another framework on the device, in this order, with the interval that such loans have in
/// cross-validation (docs/time-model.md#how-sure-iteration-times-are). Matrix products of a device that has
/// tables of its own stay as these say. It does not depend on the run's layout.
RunBasis basis_of(const TrainingRun& run, const RunCalibration& calibration);

/// A 90 % interval, in seconds.
struct TimeRange {
  double low = 0;
  double high = 0;
};

/// That of a run's time `seconds`: the basis' spread, but never shorter than the model's mathematics at the
/// peak. Where more than half of the time is launches, latencies and what hosts do between steps, which runs
/// of large models say little about, each of these is anywhere inside its limits (CoefficientFacts).
TimeRange range_of(const TrainingRun& run, const RunBasis& basis, double seconds);

/// The framework in a family's name "H100, nemo", "V100, 100 Gb/s, megatron".
std::string framework_of_family(std::string_view family);

/// The name of the family of a device's runs under a framework: that of its network where there is one, or
/// where the network is not what the device's families without one have.
std::string family_of_run(const RunHardware& hardware, std::string_view framework,
                          const RunCalibration& calibration);

/// Of several frameworks the one with the most runs on the device, else on any; of equal ones the first.
/// Never null.
const RunFramework* most_measured(std::span<const RunFramework* const> frameworks, std::string_view gpu,
                                  const RunCalibration& calibration);

/// The framework that most runs with sharded parameters on the device were of; null: there are none.
const RunFramework* measured_with_shards(std::string_view gpu, const RunCalibration& calibration);

/// Whose runs stand for those of a job's framework on the device: its own, where they were measured there or
/// on a device alike, else those with the most runs. Never null.
const RunFramework* framework_for_job(std::string_view framework, std::string_view gpu,
                                      const RunCalibration& calibration);

}  // namespace commlens
