#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::goal {

/// Calls of kind `other`, which GOAL has no word for, by name.
using GoalLeftOut = std::map<std::string, std::int64_t>;

/// Fails when the trace does not report what the messages of its calls were (a group, a root, the parts of an
/// all_to_all), and when the schedule would have more than 10^9 operations.
Result<GoalLeftOut> check_goal(const Trace& trace);

/// Operations that one rank's part of a call takes, `ranks` >= 1.
std::int64_t goal_operations(CommKind kind, std::int64_t ranks);

}  // namespace commlens::formats::goal
