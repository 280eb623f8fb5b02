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

/// A planned job: what its steady iteration costs, and the calls of the rank that sends most in it.
struct PlannedStep {
  StepCost cost;
  std::map<CallShape, std::int64_t> calls;  // of that rank; axes as the members stand on the mesh
};

/// Counts the steady iteration of a plan.
PlannedStep planned_step(const Plan& plan, const AdviceOptions& options);

/// Memory of the fullest rank: memory_per_rank (model/memory.hpp), the parameters that ZeRO-3 keeps gathered
/// beside their shards, and DeepSpeed's reduction buffers. Sources of the latter: deepspeed 0.14.0
/// runtime/zero/stage_1_and_2.py backward (reduce_bucket_size elements, twice with overlap_comm) and
/// runtime/zero/stage3.py (once). Fragmentation, temporary buffers of kernels and gathered layers are not in
/// it.
Bytes memory_of(const Job& job);

/// Elements of the parameters that ZeRO-3 keeps gathered on one rank, and how many they are; none at other
/// stages.
struct KeptParameters {
  std::int64_t count = 0;
  Elements elements;
};
KeptParameters kept_gathered(const Job& job);

/// (p-1)/(v m + p-1): the share of a step that a pipeline of p stages with v chunks each spends filling and
/// draining, m micro-batches of equal length. 0 without a pipeline. Source: Narayanan et al., arXiv
/// 2104.04473 §2.2, whose fraction is of the ideal time; here it is of the whole step.
double pipeline_bubble(const Job& job);

}  // namespace commlens
