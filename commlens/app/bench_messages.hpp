#pragma once
#include "commlens/app/bench.hpp"
#include "commlens/app/bench_launch.hpp"
#include "commlens/app/model_messages.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// The messages of one iteration: of a configuration the one that repeats, of a trace the last whole one.
/// Fails as model_messages().
Result<ModelMessages> bench_messages(const BenchRequest& request);

/// A row for each op, element type, size and groups of the messages, with how often it is called. Unequal
/// parts are the messages' own where these have them. Warns of calls that cannot be timed: those of one rank,
/// of kind `other`, of unknown groups.
Result<BenchPlan> plan_of_messages(const ModelMessages& messages, const Events& events);

}  // namespace commlens
