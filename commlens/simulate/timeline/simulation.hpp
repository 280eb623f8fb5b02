#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/comm/axis.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/run_calibration.hpp"
#include "commlens/simulate/timeline/estimate.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What calls that are under way at the same time do to each other.
enum class Contention : std::uint8_t {
  none,     // nothing
  flows,    // they share the job's links (call_speeds.hpp)
  simgrid,  // the same, as SimGrid plays it (simgrid_calls.hpp)
};
std::string_view name_of(Contention contention);

/// How a plan is carried out on a machine.
struct SimulationOptions {
  const Machine* machine = nullptr;
  const Machine* lender = nullptr;  // the machine that it borrows from; null: none
  Library library;
  DType dtype = DType::bf16;  // of matrix products
  /// Ranks compute longer by the expected largest of n normal deviations of this part of their time: 1 +
  /// sigma sqrt(2 ln n). 0: all compute alike.
  double jitter = 0;
  Contention contention = Contention::none;
  /// Messages of tensor parallelism run inside matrix products: of each, the part shows that it does in
  /// measured runs (1 - tensor_hidden, docs/time-model.md#coefficients).
  bool overlaps_tensor = false;
  bool has_intervals = true;    // else figures are values alone, without the four more runs
  std::int64_t iterations = 1;  // that count, one after the other
  bool collapse = true;         // ranks that do the same at the same time are simulated once
};

/// What an operation along an axis costs in an iteration, the mean over ranks.
struct SimulatedCalls {
  CommKind op = CommKind::other;
  Axis axis;
  double calls = 0;
  Estimate moving;                           // s, of its calls under way
  Estimate exposed;                          // s of those in which the rank computes nothing
  TimeSource source = TimeSource::measured;  // the weakest of its calls'
  std::string source_of;
};

/// Steady iterations of a plan on a machine.
struct Simulation {
  Iteration iteration = 0;      // the first of these
  std::int64_t iterations = 1;  // figures are means over them
  Estimate seconds;
  Estimate tokens_per_second;  // of one rank
  Estimate mfu;                // of the model's FLOPs, without recomputation, at the peak
  Estimate compute;            // s, the mean over ranks, with what calls under way slow it down by
  Estimate exposed;            // s of calls under way in which the rank computes nothing
  Estimate waiting;  // s in which a rank neither computes nor moves data: the pipeline's bubble, later ranks
  std::vector<SimulatedCalls> calls;  // most exposed first
  std::string compute_provenance;
  std::string library;  // "nccl 2.29.2"
  Contention contention = Contention::none;
  std::vector<std::string> assumptions;  // about links, where the machine file does not say
  std::int64_t classes = 0;
  Trace trace;  // of these iterations, with times
};

/// Fails where a job has more ranks than the machine.
Result<void> check_fits(const Machine& machine, std::int64_t ranks);

/// Simulates steady iterations of the plan, one before and one after those that count. Figures' intervals are
/// those of four more runs: with the kernels' times and the calls' at either end of their 90 % intervals.
/// Fails where the job has more ranks than the machine, where the machine lacks what kernels or calls need,
/// and where calls wait for each other for ever.
Result<Simulation> simulated(const Plan& plan, const SimulationOptions& options,
                             const RunCalibration& calibration);

}  // namespace commlens
