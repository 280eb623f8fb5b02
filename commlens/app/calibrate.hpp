#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/calibrate/calibrate.hpp"

namespace commlens {

/// Measured times, and the machine that they are of.
struct CalibrateRequest {
  std::vector<std::string> files;  // sweeps (docs/machines.md), output of nccl-tests or of the OSU benchmarks
  std::string machine;             // to start from; empty: the one that the files name
  std::string library;             // "nccl:2.27.3", where the files do not say
  std::int64_t ranks_per_node = 0;    // of outputs that do not say; 0: as many as a node has
  std::string shape_from;             // a machine whose dependence on the number of ranks is taken over
  std::vector<std::string> held_out;  // files whose rows are predicted and not fitted
  std::string source;                 // of the numbers, for the machine file; empty: the files' names
  Events events;
};

/// The calibrated machine, how far it is from what was fitted and from what was held out.
struct CalibrateResult {
  Machine machine;
  std::vector<PairError> fitted;
  std::vector<PairError> held_out;
};

/// A file that is there twice, under whatever name; empty: none is.
std::string given_twice(const std::vector<std::string>& files);

/// Reads the files and fits the machine. Fails on files without times, on times that cannot be, and where
/// nothing can be fitted. Warns of pairs that the data cannot support.
Result<CalibrateResult> calibrate(const CalibrateRequest& request);

/// Residuals by operation, algorithm and protocol: a table; JSON as schema commlens.calibrate/1; CSV.
std::string rendered(const CalibrateResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
