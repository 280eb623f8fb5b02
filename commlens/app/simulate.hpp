#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/prediction.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/simulate/timeline/simulation.hpp"

namespace commlens {

/// A job whose iteration is to be timed on a machine.
struct SimulateRequest {
  std::vector<std::string> config;  // as predict takes it
  std::string framework;
  Overrides overrides;
  std::string machine;           // a name of commlens machines, or a file
  std::string library;           // "nccl:2.27.3"; empty: the machine's
  double jitter = 0;             // SimulationOptions::jitter
  bool overlaps_tensor = false;  // SimulationOptions::overlaps_tensor
  Contention contention = Contention::none;
  std::string trace;  // a folder for the trace with times; empty: none
  bool collapse = true;
  std::string calibration;  // of calibrate --rows; empty: the one that the program brings
  Events events;
};

/// The simulation, what it is of, and the memory of the rank that holds most.
struct SimulatedJob {
  Job job;
  std::string framework;  // "deepspeed 0.19.7"
  Machine machine;
  Simulation simulation;
  MemoryEstimate memory;
  std::vector<std::string> unverified = {};  // settings whose rules were never measured
};

/// Element type of a job's matrix products.
DType compute_dtype_of(const Job& job);

/// Plans the job and simulates its steady iteration. Fails as plan_of and simulated() do, on machines and
/// libraries that are not known, and where the trace cannot be written.
Result<SimulatedJob> simulate(const SimulateRequest& request);

/// Figures with their intervals, and what each operation along each axis costs; JSON as schema
/// commlens.simulate/1; CSV of the operations.
std::string rendered(const SimulatedJob& result, Format format, const TextStyle& style = {});

}  // namespace commlens
