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

/// All of these, of training. What a table of a trace shows.
struct OverlapTotals {
  std::vector<OverlapTotal> by_rank;
  std::vector<OverlapTotal> by_op;
  std::vector<OverlapTotal> by_axis;
  bool knows_exposed = false;  // of any rank and iteration
  /// What is skipped because it belongs to no known iteration, where there is training: calls of all ranks,
  /// or computing alone.
  bool leaves_out = false;
  std::int64_t calls_left_out = 0;
  /// Ranks whose calls come in such an order that their sums would take too much memory, and the calls of
  /// which are not in here.
  std::int64_t ranks_left_out = 0;
  bool empty() const { return by_rank.empty() && ranks_left_out == 0; }
};

OverlapTotals overlap_totals(const std::vector<IterationOverlap>& rows);

/// Adds up totals of different ranks.
void merge(OverlapTotal& into, const OverlapTotal& from);

}  // namespace commlens
