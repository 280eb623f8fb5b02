#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What must be known of a trace before a schedule of messages is made of it.
struct GoalPlan {
  std::map<std::vector<Rank>, std::uint32_t> tags;  // of collectives by members; 0 is of send and recv
  std::map<std::string, std::int64_t> left_out;     // calls of kind `other`, by name
};

/// Fails when the messages of the schedule would not match: a group or a root that is not known, a member
/// without calls, members that call a group a different number of times, sends without their receives; and
/// when the schedule would have more than 10^9 operations.
Result<GoalPlan> plan_goal(const Trace& trace);

/// Operations that one rank's part of a call takes, `ranks` >= 1.
std::int64_t goal_operations(CommKind kind, std::int64_t ranks);

}  // namespace commlens
