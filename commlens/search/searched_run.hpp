#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/search/space.hpp"
#include "commlens/simulate/run_basis.hpp"

namespace commlens {

/// What a layout is wanted for.
struct SearchQuestion {
  ModelConfig model;
  Machine machine;
  std::int64_t ranks = 0;         // devices
  std::int64_t global_batch = 0;  // sequences
  std::string framework;          // of search_frameworks(); empty: the one that the device was measured with
  MatrixPrecision precision = MatrixPrecision::bf16;
};

/// Frameworks whose behaviour is known, each once.
std::vector<std::string> search_frameworks();

/// A run that stands for all layouts of a search.
struct SearchedRun {
  TrainingRun base;  // its layout has the devices and the batch alone
  SearchSpace space;
  std::string framework;
  double memory_limit = 0;        // bytes of a device
  bool has_sharded_runs = false;  // the framework was fitted to runs with sharded parameters, among others
};

/// The devices of a machine (machine_hardware()). Fails where the machine lacks a number, and for more
/// devices than it has or that fill no nodes.
Result<RunHardware> hardware_of(const Machine& machine, std::int64_t ranks);

/// The model as runs have it.
RunModel run_model(const ModelConfig& model);

/// The run of the question. Without a framework it is that of the device's measured runs that divides the
/// optimizer, by the number of runs, or the one with most runs on all devices.
Result<SearchedRun> searched_run(const SearchQuestion& question, const RunCalibration& calibration);

/// Half of the 90 % interval of the logarithm of a layout's time, and where its coefficients come from: as
/// the basis says, borrowed where a calibrated family has seen no parameters that are shared that way.
double spread_of(const SearchedRun& searched, const RunBasis& basis, DataParallelKind kind);
std::string provenance_of(const SearchedRun& searched, const RunBasis& basis, DataParallelKind kind);

}  // namespace commlens
