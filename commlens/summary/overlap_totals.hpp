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

/// Only training iterations, if the trace has any: initialisation would dominate them, and calls of unknown
/// iterations may be at any time. Else the rows of unknown iterations; else all rows.
std::vector<IterationOverlap> of_training(std::vector<IterationOverlap> rows);

/// Over iterations: one for each rank or class, in one rank's time.
std::vector<OverlapTotal> overlap_by_rank(const std::vector<IterationOverlap>& rows);
/// Over iterations and ranks, most time first; `iterations` are of the rows that have such calls, the span is
/// of all rows.
std::vector<OverlapTotal> overlap_by_op(const std::vector<IterationOverlap>& rows);
/// The same for communicators of one axis and size together. Two that run at the same time count twice.
std::vector<OverlapTotal> overlap_by_axis(const std::vector<IterationOverlap>& rows);

/// All of these, of training: the content of a trace's tables.
struct OverlapTotals {
  std::vector<OverlapTotal> by_rank;
  std::vector<OverlapTotal> by_op;
  std::vector<OverlapTotal> by_axis;
  bool knows_exposed = false;  // of any rank and iteration
  /// Whether calls (of all ranks) or computing of unknown iterations are skipped, which is so if there is
  /// training.
  bool has_skipped = false;
  std::int64_t skipped_calls = 0;
  /// Ranks that are not included because the order of their calls would take too much memory to sum.
  std::int64_t skipped_ranks = 0;
  bool empty() const { return by_rank.empty() && skipped_ranks == 0; }
};

OverlapTotals overlap_totals(const std::vector<IterationOverlap>& rows);

/// Adds up totals of different ranks.
void merge(OverlapTotal& into, const OverlapTotal& from);

}  // namespace commlens
