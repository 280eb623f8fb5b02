#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "commlens/advice/step_cost.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Durations of calls in a trace, by kind, axis, group size and message size: medians over all ranks and
/// iterations except initialisation and the first iteration, which are cold. A call takes from its start to
/// its end, and so includes waiting for the group's other members.
///
/// Recordings of frameworks do not name axes, so an axis is that of the group's members on the job's mesh
/// (trace/group_axes.hpp); a group of all ranks is one group, independent of the name of its axis.
class CallTimes {
 public:
  /// std::nullopt if no stream of the trace has both times and an iteration after the first, and when its
  /// times are averages of several calls.
  ///   mesh  of the job that the trace is of
  static std::optional<CallTimes> of(const Trace& trace, const Mesh& mesh, Bytes small_limit);

  /// The estimated duration of one call. Between two sizes of the same kind and group: linear in the message;
  /// below the smallest: as the smallest; above the largest: proportional. A kind that the trace lacks on
  /// that group takes the time of another one with the same wire bytes per rank (docs/volumes.md, bus
  /// factors): all_reduce, reduce_scatter, all_gather, reduce and broadcast replace each other. std::nullopt
  /// for barriers and receives (which mostly wait), and for calls without a replacement.
  std::optional<double> nanoseconds_of(const CallShape& call) const;
  /// The duration of the given numbers of calls of each shape (negative: removed calls), barriers and
  /// receives skipped; std::nullopt if one of the others is not known.
  std::optional<double> nanoseconds_of(const std::map<CallShape, std::int64_t>& calls) const;
  /// The first shape without an estimate; std::nullopt if all have one.
  std::optional<CallShape> unknown_in(const std::map<CallShape, std::int64_t>& calls) const;

  /// Median over ranks and iterations of the time from the first call of an iteration to the first call of
  /// the next; nothing with fewer than two iterations after the first.
  std::optional<std::chrono::nanoseconds> step() const { return step_; }

  const SmallMessages& small() const { return small_; }

 private:
  using Group = std::tuple<CommKind, Axis, std::int64_t>;
  Group group_of(const CallShape& call) const;
  std::optional<double> interpolated(const Group& group, double message) const;

  std::int64_t ranks_ = 0;  // of the job
  std::map<Group, std::map<Bytes, double>> medians_;
  std::optional<std::chrono::nanoseconds> step_;
  SmallMessages small_;
};

/// The calls that `before` has in excess, minus those that `after` has in excess.
std::map<CallShape, std::int64_t> fewer_calls(const PlannedStep& before, const PlannedStep& after);

/// Time that a change saves per iteration: fewer_calls, each at CallTimes' estimate. std::nullopt if one of
/// them cannot be estimated.
std::optional<std::chrono::nanoseconds> time_saved(const PlannedStep& before, const PlannedStep& after,
                                                   const CallTimes& times);

}  // namespace commlens
