#include "commlens/summary/overlap.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "commlens/base/sums.hpp"
#include "commlens/summary/iteration_parts.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Calls of one row while they are collected.
struct Collected {
  std::int64_t calls = 0;
  nanoseconds sum{};
  Intervals occupied;

  void add(const Interval& interval) {
    ++calls;
    sum = nanoseconds(saturating_sum(sum.count(), (interval.finished - interval.started).count()));
    occupied.push_back(interval);
  }
};

CommunicationTime time_of(const Collected& calls, const Intervals& united_calls, const Intervals* compute) {
  CommunicationTime time{.calls = calls.calls, .sum = calls.sum, .total = length(united_calls)};
  if (compute != nullptr) {
    time.overlapped = common_length(united_calls, *compute);
    time.exposed = time.total - *time.overlapped;
  }
  return time;
}

/// The rows of one iteration that its calls are divided into, twice: by op, and by stream.
class Division {
 public:
  Division(const Trace& trace, Rank rank) : trace_(trace), rank_(rank), slots_(trace.ops().size()) {}

  void add(OpId id, const Interval& interval) {
    Slots& slots = slots_[static_cast<std::size_t>(id)];
    if (slots.op == nullptr) {
      const CommOp& op = trace_.op(id);
      const OpKey key{op.kind, op.kind == CommKind::other ? op.name : NameId{}};
      slots.op = &*ops_.try_emplace(key).first;
      slots.stream = &*streams_.try_emplace(stream_of(op)).first;
    }
    add_to(*slots.op, interval, met_ops_);
    add_to(*slots.stream, interval, met_streams_);
  }

  /// Returns the rows of the calls so far, and resets.
  void move_rows(IterationOverlap& into, const Intervals* compute) {
    for (auto* const entry : in_order(met_ops_)) {
      auto& [key, calls] = *entry;
      into.ops.push_back({key.first, key.second, time_of(calls, united(calls.occupied), compute)});
      calls = {};
    }
    for (auto* const entry : in_order(met_streams_)) {
      auto& [key, calls] = *entry;
      into.streams.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key),
                              time_of(calls, united(calls.occupied), compute)});
      calls = {};
    }
    met_ops_.clear();
    met_streams_.clear();
  }

 private:
  using OpKey = std::pair<CommKind, NameId>;
  using StreamKey = std::tuple<Axis, bool, std::vector<Rank>, CommunicatorId>;
  using Ops = std::map<OpKey, Collected>;
  using Streams = std::map<StreamKey, Collected>;
  struct Slots {
    Ops::value_type* op = nullptr;
    Streams::value_type* stream = nullptr;
  };

  template <typename Entry>
  static void add_to(Entry& entry, const Interval& interval, std::vector<Entry*>& met) {
    if (entry.second.calls == 0) {
      met.push_back(&entry);
    }
    entry.second.add(interval);
  }

  template <typename Entry>
  static std::vector<Entry*>& in_order(std::vector<Entry*>& met) {
    std::sort(met.begin(), met.end(), [](const Entry* a, const Entry* b) { return a->first < b->first; });
    return met;
  }

  StreamKey stream_of(const CommOp& op) const {
    std::vector<Rank> members = trace_.groups.members(op.group, rank_);
    const bool is_pair = is_point_to_point(op.kind);
    if (is_pair) {
      std::sort(members.begin(), members.end());
    }
    return {trace_.groups.axis(op.group), is_pair, std::move(members), trace_.groups.communicator(op.group)};
  }

  const Trace& trace_;
  Rank rank_;
  std::vector<Slots> slots_;  // by op
  Ops ops_;
  Streams streams_;
  std::vector<Ops::value_type*> met_ops_;  // that have calls: an iteration has few of those of the trace
  std::vector<Streams::value_type*> met_streams_;
};

IterationOverlap overlap_of(const RankStream& stream, const IterationPart& part, Division& division) {
  const bool has_compute = !stream.compute.empty();
  const Intervals* const compute = has_compute ? &part.compute : nullptr;
  Collected all;
  all.occupied.reserve(part.calls.size());
  for (const std::uint32_t row : part.calls) {
    const Interval interval = occupied(stream.times[row]);
    all.add(interval);
    division.add(stream.events[row].op, interval);
  }
  const Intervals calls = united(std::move(all.occupied));
  IterationOverlap result{.iteration = part.iteration, .span = part.span};
  result.all = time_of(all, calls, compute);
  if (result.all.exposed) {
    const nanoseconds computing = length(part.compute);
    result.compute = computing;
    result.idle = result.length() - computing - *result.all.exposed;
  }
  division.move_rows(result, compute);
  return result;
}

/// Appends the rows of a stream until there are `most`; returns how many rows the stream has.
std::int64_t append_rows(const Trace& tables, const RankStream& stream, const TimeSelection& selection,
                         std::size_t most, std::vector<IterationOverlap>& rows) {
  if (selection.rank && !stream.ranks.contains(*selection.rank)) {
    return 0;
  }
  const RankRange ranks = selection.rank ? RankRange{*selection.rank, *selection.rank} : stream.ranks;
  const std::vector<IterationPart> parts = iteration_parts(stream, selection);
  Division division(tables, ranks.first);
  for (std::size_t at = 0; at < parts.size() && rows.size() < most; ++at) {
    rows.push_back(overlap_of(stream, parts[at], division));
    rows.back().ranks = ranks;
  }
  return std::ssize(parts);
}

}  // namespace

std::vector<IterationOverlap> stream_overlap(const Trace& tables, const RankStream& stream,
                                             const TimeSelection& selection) {
  std::vector<IterationOverlap> rows;
  append_rows(tables, stream, selection, SIZE_MAX, rows);
  return rows;
}

FirstOverlapRows first_overlap_rows(const Trace& trace, const TimeSelection& selection, std::size_t most) {
  std::vector<const RankStream*> streams;
  for (const RankStream& stream : trace.streams) {
    streams.push_back(&stream);
  }
  std::stable_sort(streams.begin(), streams.end(),
                   [](const RankStream* a, const RankStream* b) { return a->ranks < b->ranks; });
  FirstOverlapRows first;
  for (const RankStream* const stream : streams) {
    first.total += append_rows(trace, *stream, selection, most, first.rows);
  }
  return first;
}

std::vector<IterationOverlap> communication_overlap(const Trace& trace, const TimeSelection& selection) {
  return first_overlap_rows(trace, selection, SIZE_MAX).rows;
}

}  // namespace commlens
