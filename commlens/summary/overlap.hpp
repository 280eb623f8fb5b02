#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/summary/intervals.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Times of foreign files may have any value; the analyses of time clamp them to this distance from zero (73
/// years either way), so that no difference overflows.
constexpr std::chrono::nanoseconds k_furthest_time{std::int64_t{1} << 61};
inline std::chrono::nanoseconds held(std::chrono::nanoseconds time) {
  return std::clamp(time, -k_furthest_time, k_furthest_time);
}

/// The interval in which a call occupies its rank: [started, finished], empty where it ends before it starts.
inline Interval occupied(const Times& times) {
  return {held(times.started), std::max(held(times.started), held(times.finished))};
}

/// The time that a rank spends in some calls, and the part of it that overlaps computing. A call occupies
/// [started, finished]; C is the union of the calls' intervals, K the union of the rank's compute intervals
/// (of any iteration: only the clock decides what overlaps).
///
///   total = |C|     exposed = |C \ K|     overlapped = |C n K|     exposed + overlapped = total, exactly
struct CommunicationTime {
  std::int64_t calls = 0;
  std::chrono::nanoseconds sum{};  // durations added up, calls at the same time twice; total <= sum
  std::chrono::nanoseconds total{};
  std::optional<std::chrono::nanoseconds> exposed;     // absent: the rank's compute intervals are not known
  std::optional<std::chrono::nanoseconds> overlapped;  // absent with `exposed`
  friend bool operator==(const CommunicationTime&, const CommunicationTime&) = default;
};

/// Calls of one op.
struct OpCommunication {
  CommKind kind = CommKind::other;
  NameId name{};  // kind `other` only
  CommunicationTime time;
};

/// Calls that share a communicator and therefore, with NCCL, a CUDA stream: those of one group (of one
/// communicator, if the source distinguishes communicators of the same ranks), and sends and receives between
/// the same two ranks in either direction (torch.distributed makes one communicator per pair of ranks:
/// ProcessGroupNCCL.cpp, getKeySendRecv).
struct StreamCommunication {
  Axis axis = Axis::unknown;
  bool is_pair = false;       // sends and receives
  std::vector<Rank> members;  // of a pair ascending; empty if not known
  CommunicatorId communicator = k_no_communicator;
  CommunicationTime time;
};

/// The time of one iteration of a rank by kind. `span` is from the first start to the last end of the
/// iteration's calls and compute intervals in the trace. It has four parts,
///   span = computing only + overlapped + exposed + idle   (exactly),
/// of which the first two together are `compute`.
struct IterationOverlap {
  RankRange ranks;  // one rank, or a class of equal ranks
  Iteration iteration = 0;
  Interval span;
  CommunicationTime all;
  std::optional<std::chrono::nanoseconds> compute;  // the part of the span in K; absent with all.exposed
  std::optional<std::chrono::nanoseconds> idle;     // neither in C nor in K
  std::vector<OpCommunication> ops;                 // by kind, then name
  std::vector<StreamCommunication> streams;  // by axis, collectives before pairs, then members, communicator
  std::chrono::nanoseconds length() const { return span.finished - span.started; }
};

/// Absent: all iterations, or all ranks. Calls and computing of unknown iterations are one row, and skipped
/// by `iterations`.
struct TimeSelection {
  std::optional<std::pair<Iteration, Iteration>> iterations;  // first and last
  std::optional<Rank> rank;
};
inline bool selects(const TimeSelection& selection, Iteration iteration) {
  return !selection.iterations ||
         (iteration >= selection.iterations->first && iteration <= selection.iterations->second);
}

/// By rank, then iteration. Ranks whose calls have no times are skipped; a rank has `exposed` when the trace
/// has compute intervals of it, in whatever iteration.
std::vector<IterationOverlap> communication_overlap(const Trace& trace, const TimeSelection& selection = {});
/// The first of these, at most `most`.
struct FirstOverlapRows {
  std::vector<IterationOverlap> rows;
  std::int64_t total = 0;  // number of rows
};
FirstOverlapRows first_overlap_rows(const Trace& trace, const TimeSelection& selection, std::size_t most);
/// The same of one stream, which need not be in `tables`; empty if the selected rank is not in it.
std::vector<IterationOverlap> stream_overlap(const Trace& tables, const RankStream& stream,
                                             const TimeSelection& selection);

}  // namespace commlens
