#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/search/timed_space.hpp"

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

/// What is searched.
struct SearchedRun {
  /// First that of the framework. Where none of its runs had sharded parameters, layouts that have are
  /// another one: of the framework whose runs on the device had, with its behaviour and coefficients; where
  /// there is none of the same one, borrowed.
  std::vector<TimedSpace> spaces;
  double memory_limit = 0;  // bytes of a device

  const TimedSpace& first() const { return spaces.front(); }
  const TimedSpace& of(DataParallelKind kind) const { return space_of(spaces, kind); }
};

/// The devices of a machine (machine_hardware()). Fails where the machine lacks a number, and for more
/// devices than it has or that fill no nodes.
Result<RunHardware> hardware_of(const Machine& machine, std::int64_t ranks);

/// The model as runs have it.
RunModel run_model(const ModelConfig& model);

/// The run of the question. Without a framework it is that of the device's measured runs that divides the
/// optimizer, by the number of runs, or the one with most runs on all devices.
Result<SearchedRun> searched_run(const SearchQuestion& question, const RunCalibration& calibration);

}  // namespace commlens
