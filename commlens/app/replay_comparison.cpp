#include "commlens/app/replay_comparison.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "commlens/bench/replay_others.hpp"
#include "commlens/compare/whole_job.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/time_stats.hpp"
#include "commlens/transport/call_check.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t k_kinds_of_calls = static_cast<std::size_t>(CommKind::other) + 1;

template <typename Value>
using ByKind = std::array<Value, k_kinds_of_calls>;

template <typename Value>
Value& of(ByKind<Value>& values, CommKind kind) {
  return values.at(static_cast<std::size_t>(kind));
}

std::int64_t calls_but_barriers(const Trace& trace) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    calls += std::count_if(stream.events.begin(), stream.events.end(), [&](const CommEvent& event) {
      return trace.op(event.op).kind != CommKind::barrier;
    });
  }
  return calls;
}

std::int64_t calls_but_barriers(const bench::ReplayPlan& plan) {
  std::int64_t calls = 0;
  for (const bench::RankProgram& program : plan.ranks) {
    calls += std::count_if(program.calls.begin(), program.calls.end(), [&](const bench::ReplayCall& call) {
      return program.ops[call.op].call.kind != CommKind::barrier;
    });
  }
  return calls;
}

/// The trace with calls that comparisons leave out, because random numbers decide how often a program makes
/// them, as calls like any other: a replay makes them as often as the trace has them.
Trace with_all_calls_compared(Trace trace) {
  for (RankStream& stream : trace.streams) {
    for (CommEvent& event : stream.events) {
      if (CommOp op = trace.op(event.op); op.match == Match::random) {
        op.match = Match::exact;
        event.op = trace.intern(op);
      }
    }
  }
  return trace;
}

bool has_random_calls(const Trace& trace) {
  return std::any_of(trace.ops().begin(), trace.ops().end(),
                     [](const CommOp& op) { return op.match == Match::random; });
}

/// The trace with the calls of the plan alone, gather and scatter under the names of transports.
Trace as_replayed(const ReplayedPart& original) {
  Trace trace = original.trace;
  for (RankStream& stream : trace.streams) {
    std::vector<std::uint32_t> rows;
    const auto first = static_cast<std::size_t>(stream.ranks.first.value);
    for (const bench::ReplayCall& call : original.plan.ranks[first].calls) {
      rows.push_back(call.row);
    }
    std::sort(rows.begin(), rows.end());
    const RankStream whole = std::move(stream);
    stream = {whole.ranks, {}, {}, whole.compute};
    for (const std::uint32_t row : rows) {
      CommEvent& event = stream.events.emplace_back(whole.events[row]);
      if (const OtherCall other = bench::other_call_of(trace, trace.op(event.op)); other != OtherCall::none) {
        CommOp op = trace.op(event.op);
        op.name = trace.names.intern(name_of(other));
        event.op = trace.intern(op);
      }
      if (!whole.times.empty()) {
        stream.times.push_back(whole.times[row]);
      }
    }
  }
  return trace;
}

bool has_others(const Trace& trace) {
  return std::any_of(trace.ops().begin(), trace.ops().end(),
                     [](const CommOp& op) { return op.kind == CommKind::other; });
}

void compare_calls(const ReplayedPart& original, const Trace& recording, ReplayResult& result) {
  CompareOptions options;
  options.iterations = original.selection.iterations;
  result.compared = std::max(calls_but_barriers(original.plan), calls_but_barriers(recording));
  if (result.compared == 0) {
    return;
  }
  if (one_lacks_iterations(original.trace, recording)) {
    const Result<WholeJobComparison> whole = compare_whole_job(original.trace, recording, options);
    result.equal = whole ? whole->exact : 0;
    return;
  }
  Result<Comparison> comparison = has_random_calls(original.trace)
                                      ? compare(with_all_calls_compared(original.trace), recording, options)
                                      : compare(original.trace, recording, options);
  if (comparison) {
    result.equal = comparison->exact;
    result.comparison = std::move(*comparison);
  }
}

/// Durations of calls, of one trace.
struct TimesByKind {
  ByKind<DurationStats> durations;
  nanoseconds first = nanoseconds::max();
  nanoseconds last = nanoseconds::min();

  void add(CommKind kind, const Times& times) {
    const Interval held = occupied(times);
    of(durations, kind).add(held.finished - held.started);
    first = std::min(first, times.issued);
    last = std::max(last, times.finished);
  }
  std::optional<nanoseconds> p50(CommKind kind) {
    const std::optional<TimeStats> stats = of(durations, kind).stats();
    return stats ? stats->p50 : std::nullopt;
  }
};

using Exposed = ByKind<std::optional<nanoseconds>>;

/// Of all ranks; absent unless it is known for every rank that makes such calls.
Exposed exposed_of(const Trace& trace, const bench::ReplaySelection& selection) {
  Exposed exposed;
  ByKind<bool> is_unknown{};
  for (const IterationOverlap& row : communication_overlap(trace, {selection.iterations, std::nullopt})) {
    for (const OpCommunication& op : row.ops) {
      of(is_unknown, op.kind) = of(is_unknown, op.kind) || !op.time.exposed;
      of(exposed, op.kind) = of(exposed, op.kind).value_or(nanoseconds(0)) +
                             op.time.exposed.value_or(nanoseconds(0)) * row.ranks.count();
    }
  }
  for (std::size_t kind = 0; kind < k_kinds_of_calls; ++kind) {
    exposed.at(kind) = is_unknown.at(kind) ? std::nullopt : exposed.at(kind);
  }
  return exposed;
}

/// When the calls of a rank were issued in the recording, by the number of the call in its program. Empty if
/// some are not recorded.
std::vector<nanoseconds> issues_of(const ReplayedPart& original, const Trace& recording, std::size_t rank) {
  const bench::RankProgram& program = original.plan.ranks[rank];
  const RankStream* const stream = recording.stream_of(Rank{static_cast<std::int64_t>(rank)});
  std::vector<nanoseconds> issues;
  std::size_t row = 0;
  for (const bench::ReplayCall& call : program.calls) {
    const bench::ReplayOp& op = program.ops[call.op];
    const bool is_recorded =
        op.call.kind != CommKind::barrier || original.plan.groups[op.group].members.size() > 1;
    if (is_recorded && (stream == nullptr || row >= stream->times.size())) {
      return {};
    }
    issues.push_back(is_recorded ? stream->times[row++].issued : nanoseconds::min());
  }
  return stream != nullptr && row == stream->times.size() ? issues : std::vector<nanoseconds>();
}

/// How much later calls were issued than in the original, in which the whole began at the same time.
ByKind<std::vector<nanoseconds>> lags_of(const ReplayedPart& original, const Trace& recording) {
  std::vector<std::vector<nanoseconds>> issues;
  nanoseconds begin = nanoseconds::max();
  for (std::size_t rank = 0; rank < original.plan.ranks.size(); ++rank) {
    issues.push_back(issues_of(original, recording, rank));
    const std::vector<bench::ReplayCall>& calls = original.plan.ranks[rank].calls;
    for (std::size_t call = 0; call < std::min<std::size_t>(1, issues[rank].size()); ++call) {
      begin = issues[rank][call] == nanoseconds::min()
                  ? begin
                  : std::min(begin, issues[rank][call] - calls[call].issued);
    }
  }
  ByKind<std::vector<nanoseconds>> lags;
  for (std::size_t rank = 0; rank < issues.size(); ++rank) {
    const bench::RankProgram& program = original.plan.ranks[rank];
    for (std::size_t call = 0; call < issues[rank].size(); ++call) {
      if (issues[rank][call] != nanoseconds::min()) {
        of(lags, program.ops[program.calls[call].op].call.kind)
            .push_back(issues[rank][call] - begin - program.calls[call].issued);
      }
    }
  }
  return lags;
}

void add_lags(const ReplayedPart& original, const Trace& recording, ReplayResult& result) {
  ByKind<std::vector<nanoseconds>> lags = lags_of(original, recording);
  for (ReplayedOp& op : result.ops) {
    std::vector<nanoseconds>& own = of(lags, op.kind);
    if (own.empty()) {
      continue;
    }
    std::sort(own.begin(), own.end());
    op.lag = own[(own.size() - 1) / 2];
    op.longest_lag = own.back();
  }
}

}  // namespace

void add_comparison(const ReplayedPart& original, const Trace& recording, ReplayResult& result) {
  const Trace as_made = has_others(original.trace) ? as_replayed(original) : Trace();
  const Trace& replayed = has_others(original.trace) ? as_made : original.trace;
  compare_calls({replayed, original.plan, original.selection}, recording, result);
  ByKind<std::int64_t> calls{};
  TimesByKind before;
  nanoseconds makespan{};
  for (Rank rank{0}; rank.value < static_cast<std::int64_t>(original.plan.ranks.size()); ++rank.value) {
    const bench::RankProgram& program = original.plan.ranks[static_cast<std::size_t>(rank.value)];
    const RankStream* const stream = original.trace.stream_of(rank);
    for (const bench::ReplayCall& call : program.calls) {
      const CommKind kind = program.ops[call.op].call.kind;
      ++of(calls, kind);
      if (original.plan.has_times) {
        const Times& times = stream->times[call.row];
        before.add(kind, times);
        makespan = std::max(makespan, call.issued + (times.finished - times.issued));
      }
    }
  }
  TimesByKind after;
  for (const RankStream& stream : recording.streams) {
    for (std::size_t row = 0; row < stream.times.size(); ++row) {
      after.add(recording.op(stream.events[row].op).kind, stream.times[row]);
    }
  }
  result.makespan = std::max(after.last - after.first, nanoseconds(0));
  if (original.plan.has_times) {
    result.original_makespan = makespan;
  }
  Exposed exposed_before = original.plan.has_times ? exposed_of(replayed, original.selection) : Exposed();
  Exposed exposed_after = exposed_of(recording, {});
  for (std::size_t at = 0; at < k_kinds_of_calls; ++at) {
    const auto kind = static_cast<CommKind>(at);
    if (calls.at(at) > 0) {
      result.ops.push_back({.kind = kind,
                            .calls = calls.at(at),
                            .original = before.p50(kind),
                            .replayed = after.p50(kind),
                            .original_exposed = exposed_before.at(at),
                            .replayed_exposed = exposed_after.at(at),
                            .lag = {},
                            .longest_lag = {}});
    }
  }
  std::stable_sort(result.ops.begin(), result.ops.end(),
                   [](const ReplayedOp& a, const ReplayedOp& b) { return a.calls > b.calls; });
  if (original.plan.has_times && result.pacing != ReplayPacing::back_to_back) {
    add_lags(original, recording, result);
  }
}

}  // namespace commlens
