#include "commlens/app/watch_tables.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// Of sums in the window; nothing before there is one.
std::optional<double> per_second(std::int64_t amount, std::chrono::nanoseconds window) {
  return window.count() <= 0
             ? std::nullopt
             : std::optional(static_cast<double>(amount) * 1e9 / static_cast<double>(window.count()));
}

std::optional<BytesPerSecond> bytes_per_second(Bytes amount, std::chrono::nanoseconds window) {
  const std::optional<double> rate = per_second(amount.value, window);
  return rate ? std::optional(BytesPerSecond{*rate}) : std::nullopt;
}

/// A process that is stopped does nothing, whatever it did before.
bool is_stopped(const LiveRank& rank) {
  const bool is_there = rank.state == LiveRankState::computing || rank.state == LiveRankState::in_call ||
                        rank.state == LiveRankState::waiting;
  return is_there && rank.process_state == ProcessState::stopped;
}

/// What is worst comes first.
int severity(const LiveRank& rank) {
  if (is_stopped(rank)) {
    return 2;
  }
  switch (rank.state) {
    case LiveRankState::stuck:
      return 0;
    case LiveRankState::dead:
      return 1;
    case LiveRankState::unknown:
      return 3;
    case LiveRankState::waiting:
      return 4;
    case LiveRankState::in_call:
      return 5;
    case LiveRankState::computing:
      return 6;
    case LiveRankState::finished:
      return 7;
    case LiveRankState::absent:
      return 8;
  }
  return 9;
}

/// Ascending, so that what is to come first has the smallest number.
double order_of(const LiveRank& rank, const std::string& sort) {
  if (sort == "state") {
    return severity(rank);
  }
  if (sort == "call") {
    return rank.call ? -static_cast<double>(rank.call->open_for.count()) : 1;
  }
  if (sort == "rate") {
    return -static_cast<double>(rank.recent.message.value);
  }
  return sort == "late" ? -rank.late_score.value_or(-1) : 0;
}

Cell state_cell(const JobView& view, const LiveRank& rank) {
  const std::string_view state = name_of(rank.state);
  const std::string_view shown = is_stopped(rank) ? name_of(rank.process_state) : state;
  const bool is_culprit = std::any_of(view.alerts.begin(), view.alerts.end(), [&](const LiveAlert& alert) {
    return std::find(alert.culprits.begin(), alert.culprits.end(), rank.rank) != alert.culprits.end();
  });
  return Cell(state).shown(is_culprit ? fmt::format("{}, culprit", shown) : std::string(shown));
}

}  // namespace

Table watched_ops(const JobView& view) {
  Table table(columns({"op", Column{.key = "name", .drop_first = 8}, "axis", "group_size", "calls_all_ranks",
                       "message_bytes_all_ranks", Column{.key = "wire_bytes_all_ranks", .drop_first = 3},
                       Column{.key = "calls_per_s_all_ranks", .drop_first = 2},
                       Column{.key = "message_bytes_per_s_all_ranks", .drop_first = 1},
                       Column{.key = "bus_bandwidth_bytes_per_s", .drop_first = 4},
                       Column{.key = "p50_ns", .drop_first = 6}, Column{.key = "p99_ns", .drop_first = 5},
                       Column{.key = "time_ns_all_ranks", .drop_first = 7},
                       Column{.key = "smallest_message_bytes", .in_text = false},
                       Column{.key = "largest_message_bytes", .in_text = false}}));
  for (const LiveOp& op : view.ops) {
    const std::optional<double> calls = per_second(op.recent.calls, view.window);
    std::optional<BytesPerSecond> bandwidth;
    if (op.bus_bandwidth_bytes_per_s) {
      bandwidth = BytesPerSecond{*op.bus_bandwidth_bytes_per_s};
    }
    table.add({name_of(op.kind), op.name, op.axis.name(), op.group_size, op.sums.calls, op.sums.message,
               op.knows_wire ? std::optional(op.sums.wire) : std::nullopt, calls,
               bytes_per_second(op.recent.message, view.window), bandwidth, op.durations.quantile(0.5),
               op.durations.quantile(0.99), op.sums.time, op.smallest, op.largest});
  }
  return table;
}

Table watched_ranks(const JobView& view, const WatchShow& show) {
  Table table(columns(
      {"rank", "state", "op", "number", "open_for_ns",
       Column{.key = "message_bytes_per_s_per_rank", .drop_first = 4},
       Column{.key = "late_share", .drop_first = 5}, Column{.key = "calls", .drop_first = 3},
       Column{.key = "iteration", .drop_first = 6}, Column{.key = "between_calls_ns", .drop_first = 8},
       Column{.key = "in_calls_ns", .drop_first = 7}, Column{.key = "host", .drop_first = 2},
       Column{.key = "pid", .drop_first = 1}, Column{.key = "process", .drop_first = 1},
       Column{.key = "message_bytes_per_rank", .in_text = false}, Column{.key = "still_ns", .in_text = false},
       Column{.key = "open_calls", .in_text = false}, Column{.key = "lost_calls", .in_text = false}}));
  std::vector<const LiveRank*> ranks;
  for (const LiveRank& rank : view.ranks) {
    if (!show.rank || rank.rank == *show.rank) {
      ranks.push_back(&rank);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](const LiveRank* a, const LiveRank* b) {
    return order_of(*a, show.sort) < order_of(*b, show.sort);
  });
  for (const LiveRank* const rank : ranks) {
    const auto in_call = [&](auto member) {
      return rank->call ? std::optional((*rank->call).*member) : std::nullopt;
    };
    const auto of_process = [&](auto member) {
      return rank->process ? std::optional((*rank->process).*member) : std::nullopt;
    };
    const bool is_marked = rank->iteration != k_unknown_iteration;
    const bool is_numbered = rank->call && rank->call->number > 0;
    table.add({rank->rank, state_cell(view, *rank), in_call(&LiveCall::op),
               is_numbered ? in_call(&LiveCall::number) : std::nullopt, in_call(&LiveCall::open_for),
               bytes_per_second(rank->recent.message, view.window), rank->late_score, rank->sums.calls,
               is_marked ? std::optional(rank->iteration) : std::nullopt, rank->between_calls, rank->in_calls,
               of_process(&RankProcess::host), of_process(&RankProcess::pid), name_of(rank->process_state),
               rank->sums.message, rank->still_for, rank->open_calls, rank->lost});
  }
  return table;
}

}  // namespace commlens
