#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "commlens/frameworks/paper/program.hpp"

namespace commlens::paper {

/// What the equations say one rank of a pipeline stage holds.
struct StageShare {
  std::int64_t layers = 0;
  bool is_first = true;
  bool is_last = true;
  Elements gradients;  // reduced over the data ranks
  Elements gathered;   // parameters gathered from them
};

/// Without corrections Eq. 1's parameters, split evenly over tensor ranks and stages, and the layers spread
/// evenly. Source: docs/rules.md#paper.
Result<std::vector<StageShare>> stage_shares(const Job& job, const std::set<Correction>& corrections,
                                             std::span<const std::int64_t> stages);

/// How the job's framework goes about what the equations leave open.
std::int64_t tensor_ranks(const Job& job);       // ranks that split tensors; 1 when they only hold copies
DType reduced_gradients(const Job& job);         // element type of gradient reductions
DType reduced_activations(const Job& job);       // of the all_reduces of activations
bool reduces_by_all_reduce(const Job& job);      // ZeRO-1, 2
bool reduces_every_micro_batch(const Job& job);  // ZeRO-2, DDP that is not told otherwise
bool shards_optimizer(const Job& job);           // without ZeRO
struct BoundaryParts {
  bool activations = true;  // each tensor rank sends its part, rather than the whole
  bool gradients = true;
};
BoundaryParts boundary_parts(const Job& job);

}  // namespace commlens::paper
