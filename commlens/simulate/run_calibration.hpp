#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/simulate/coefficients.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// What was fitted to the runs of one family: a device, a network and a framework.
struct FamilyFit {
  std::string name;
  std::string gpu;
  std::string source;  // of the times
  std::int64_t rows = 0;
  std::vector<Coefficient> fitted;
  Coefficients coefficients;  // priors where nothing was fitted
  bool has_bf16 = false;      // what the runs had
  bool has_small = false;     // fp8 or fp4
  bool has_fused = false;     // attention
  bool has_unfused = false;
  std::int64_t longest_sequence = 0;
  std::string only_model;  // of all its runs; empty: they had several
  double spread = 0;       // 90th percentile of |log(predicted / measured)| of runs that the fit had not seen
};

/// Families, in the order of their names.
struct RunCalibration {
  std::vector<FamilyFit> families;
};

/// Fits every family of the measured runs. `source`: of the times; empty: what the runs say. Its spread comes
/// from five parts by model (by row where there is only one model), each predicted by the others, 4 % at
/// least; of fewer than ten runs it is that of borrowed predictions.
RunCalibration calibrated_runs(std::span<const TrainingRun> runs, const std::string& source);

/// The same without the spreads, which take five more fits.
RunCalibration fitted_families(std::span<const TrainingRun> runs, const std::string& source);

/// How far estimates of memory are off, as a factor: 43 measured runs of one framework are within 1.14
/// (docs/results/simulate.md); others were not.
constexpr double k_memory_factor = 1.25;

/// A time with its interval and where its coefficients come from.
struct RunPrediction {
  double seconds = 0;
  double low = 0;
  double high = 0;
  double mfu = 0;  // share of the peak that the model's mathematics make up
  double mfu_low = 0;
  double mfu_high = 0;
  double memory_bytes = 0;  // of a device
  double memory_low = 0;
  double memory_high = 0;
  std::string provenance;  // "calibrated on 170 runs: …", "borrowed from …", "uncalibrated"
};

/// From what basis_of() chooses.
RunPrediction predicted_run(const TrainingRun& run, const RunCalibration& calibration);

/// JSON, schema commlens.training/1.
std::string calibration_json(const RunCalibration& calibration);
Result<RunCalibration> read_calibration(std::string_view file, std::string_view content);

/// data/training/families.json.
const RunCalibration& built_in_calibration();

}  // namespace commlens
