#pragma once
#include <cstdint>
#include <map>
#include <tuple>

#include "commlens/advice/advice.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// Calls that cost the same: kind, axis, ranks of the group, message bytes of one call.
struct CallShape {
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  std::int64_t group_size = 1;
  Bytes message;
  friend auto operator<=>(const CallShape&, const CallShape&) = default;
};

/// A planned job: the cost of its steady iteration, and the calls of the rank that sends most in it.
struct PlannedStep {
  StepCost cost;
  std::map<CallShape, std::int64_t> calls;  // of that rank; axes as the members stand on the mesh
};

/// Counts the steady iteration of a plan.
PlannedStep planned_step(const Plan& plan, const AdviceOptions& options);

/// (p-1)/(v m + p-1): the share of a step that a pipeline of p stages with v chunks each spends filling and
/// draining, m micro-batches of equal length. 0 without a pipeline. Source: Narayanan et al., arXiv
/// 2104.04473 §2.2, whose fraction is of the ideal time; here it is of the whole step.
double pipeline_bubble(const Job& job);

}  // namespace commlens
