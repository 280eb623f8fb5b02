#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/summary/overlap.hpp"

namespace commlens {

/// Sums of CommunicationTime over ranks and iterations, and of the spans they lie in. `exposed` and
/// `overlapped` are absent when one of what was added lacks them, so that they always add up to `total`.
struct OverlapTotal {
  RankRange ranks;                  // of overlap_by_rank
  CommKind kind = CommKind::other;  // of overlap_by_op
  NameId name{};
  Axis axis = Axis::unknown;  // of overlap_by_axis
  bool is_pair = false;
  std::int64_t group_size = 0;
  std::int64_t iterations = 0;  // that are known: of one rank; of several: of all together
  std::chrono::nanoseconds span{};
  CommunicationTime time;
  std::optional<std::chrono::nanoseconds> compute;
  std::optional<std::chrono::nanoseconds> idle;
};

/// Training iterations alone, where the trace has any: initialisation would drown them, and what belongs to
/// no known iteration may lie anywhere. Else what is of no known iteration; else all rows.
std::vector<IterationOverlap> of_training(std::vector<IterationOverlap> rows);

/// Over iterations: one for each rank or class, in one rank's time.
std::vector<OverlapTotal> overlap_by_rank(const std::vector<IterationOverlap>& rows);
/// Over iterations and ranks, most time first; `iterations` are of the rows that have such calls, the span is
/// of all rows.
std::vector<OverlapTotal> overlap_by_op(const std::vector<IterationOverlap>& rows);
/// The same for communicators of one axis and size together. Two that run at the same time count twice.
std::vector<OverlapTotal> overlap_by_axis(const std::vector<IterationOverlap>& rows);

}  // namespace commlens
