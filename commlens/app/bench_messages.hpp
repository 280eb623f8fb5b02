#pragma once
#include <vector>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The messages of one iteration: of a configuration the one that repeats, of a trace the last.
struct BenchMessages {
  Trace trace;              // of that iteration
  std::int64_t ranks = 0;   // of the job
  std::string description;  // "19M, 4 ranks: iteration 2"
};

/// Reads and predicts a configuration, or reads a trace. Fails where neither can be.
Result<BenchMessages> bench_messages(const BenchRequest& request);

/// A row for each op, element type, sizes and groups of the messages, with how often it is called. Warns of
/// calls that cannot be timed: those of one rank, of kind `other`, of unknown groups.
Result<BenchPlan> plan_of_messages(const BenchMessages& messages, const Events& events);

}  // namespace commlens
