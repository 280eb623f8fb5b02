#include "commlens/formats/goal/check.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "commlens/formats/io/incomplete_calls.hpp"

namespace commlens::formats::goal {
namespace {

constexpr std::int64_t k_most_operations = 1'000'000'000;

/// Fails when the trace does not report the ranks of a group, a root, or the parts of an all_to_all.
Result<void> check_known(const Trace& trace) {
  const IncompleteCalls groupless = incomplete_calls(trace, [&](const CommOp& op) {
    return op.kind != CommKind::other && !trace.groups.knows_members(op.group);
  });
  if (groupless.calls > 0) {
    return failure(fmt::format("GOAL needs the ranks of every group; the trace does not tell those of {}",
                               text_of(trace, groupless)));
  }
  const IncompleteCalls rootless = incomplete_calls(trace, [&](const CommOp& op) {
    return has_root(op.kind) && !op.root && trace.groups.size(op.group) > 1;
  });
  if (rootless.calls > 0) {
    return failure(
        fmt::format("GOAL needs the root of every broadcast and reduce; the trace does not tell that of {}",
                    text_of(trace, rootless)));
  }
  const IncompleteCalls uneven = incomplete_calls(trace, [&](const CommOp& op) {
    return op.kind == CommKind::all_to_all && op.input != op.output && trace.groups.size(op.group) > 1;
  });
  if (uneven.calls > 0) {
    return failure(
        fmt::format("GOAL needs to know how much each rank sends to each other one; of an all_to_all that "
                    "gives and gets different amounts the trace has the sums only: {}",
                    text_of(trace, uneven)));
  }
  return {};
}

}  // namespace

std::int64_t goal_operations(CommKind kind, std::int64_t ranks) {
  // log2, rounded up
  const auto rounds = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(ranks - 1)));
  switch (kind) {
    case CommKind::all_reduce:
      return 4 * (ranks - 1);
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
      return 2 * (ranks - 1);
    case CommKind::all_to_all:
      return 2 * (ranks - 1) + 1;
    case CommKind::broadcast:
    case CommKind::reduce:
      return rounds + 1;
    case CommKind::barrier:
      return 2 * rounds;
    case CommKind::send:
    case CommKind::recv:
      return 1;
    case CommKind::other:
      return 0;
  }
  return 0;
}

Result<GoalLeftOut> check_goal(const Trace& trace) {
  if (const auto known = check_known(trace); !known) {
    return tl::unexpected(known.error());
  }
  GoalLeftOut left_out;
  std::int64_t operations = 0;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      const std::int64_t ranks = stream.ranks.count();
      if (op.kind == CommKind::other) {
        left_out[trace.names.text(op.name)] += ranks;
      } else {
        operations +=
            ranks * goal_operations(op.kind, std::max<std::int64_t>(trace.groups.size(op.group), 1));
      }
    }
    if (operations > k_most_operations) {
      return failure(
          fmt::format("the schedule would have more than {} operations; predict or import fewer iterations",
                      k_most_operations));
    }
  }
  return left_out;
}

}  // namespace commlens::formats::goal
