#include "commlens/formats/exporters/goal_check.hpp"

#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/formats/exporters/untold_calls.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_operations = 1'000'000'000;

/// Counts the calls of every group and pair, rank by rank.
class GoalChecker {
 public:
  explicit GoalChecker(const Trace& trace) : trace_(trace) {}

  Result<GoalPlan> check() {
    if (const auto told = check_told(); !told) {
      return tl::unexpected(told.error());
    }
    for (const RankStream& stream : trace_.streams) {
      std::unordered_map<std::uint32_t, std::int64_t> calls;  // by op
      for (const CommEvent& event : stream.events) {
        ++calls[static_cast<std::uint32_t>(event.op)];
      }
      for (const auto& [op, count] : calls) {
        if (const auto checked = count_op(stream, trace_.op(OpId{op}), count); !checked) {
          return tl::unexpected(checked.error());
        }
      }
    }
    if (const auto matched = check_counts(); !matched) {
      return tl::unexpected(matched.error());
    }
    number_tags();
    return std::move(plan_);
  }

 private:
  Result<void> check_told() const;
  Result<void> count_op(const RankStream& stream, const CommOp& op, std::int64_t calls);
  Result<void> count_calls(const CommOp& op, Rank rank, std::int64_t calls);
  Result<void> check_counts() const;

  void number_tags() {
    for (const auto& [members, calls] : collectives_) {
      plan_.tags.emplace(members, static_cast<std::uint32_t>(plan_.tags.size() + 1));
    }
  }

  const Trace& trace_;
  GoalPlan plan_;
  std::map<std::vector<Rank>, std::map<Rank, std::int64_t>> collectives_;  // members -> caller -> calls
  std::map<std::pair<Rank, Rank>, std::pair<std::int64_t, std::int64_t>> messages_;  // sends, receives
  std::int64_t operations_ = 0;
};

/// Fails when the trace does not tell the ranks of a group, a root, or the parts of an all_to_all.
Result<void> GoalChecker::check_told() const {
  const UntoldCalls groupless = untold_calls(trace_, [&](const CommOp& op) {
    return op.kind != CommKind::other && !trace_.groups.knows_members(op.group);
  });
  if (groupless.calls > 0) {
    return failure(fmt::format("GOAL needs the ranks of every group; the trace does not tell those of {}",
                               text_of(trace_, groupless)));
  }
  const UntoldCalls rootless = untold_calls(trace_, [&](const CommOp& op) {
    return has_root(op.kind) && !op.root && trace_.groups.size(op.group) > 1;
  });
  if (rootless.calls > 0) {
    return failure(
        fmt::format("GOAL needs the root of every broadcast and reduce; the trace does not tell that of {}",
                    text_of(trace_, rootless)));
  }
  const UntoldCalls uneven = untold_calls(trace_, [&](const CommOp& op) {
    return op.kind == CommKind::all_to_all && op.input != op.output && trace_.groups.size(op.group) > 1;
  });
  if (uneven.calls > 0) {
    return failure(
        fmt::format("GOAL needs to know how much each rank sends to each other one; of an all_to_all that "
                    "gives and gets different amounts the trace tells the sums alone: {}",
                    text_of(trace_, uneven)));
  }
  return {};
}

Result<void> GoalChecker::count_op(const RankStream& stream, const CommOp& op, std::int64_t calls) {
  if (op.kind == CommKind::other) {
    plan_.left_out[trace_.names.text(op.name)] += calls * stream.ranks.count();
    return {};
  }
  for (Rank rank = stream.ranks.first; rank <= stream.ranks.last; ++rank.value) {
    if (const auto counted = count_calls(op, rank, calls); !counted) {
      return counted;
    }
  }
  return {};
}

Result<void> GoalChecker::count_calls(const CommOp& op, Rank rank, std::int64_t calls) {
  const std::vector<Rank> members = trace_.groups.members(op.group, rank);
  operations_ += calls * goal_operations(op.kind, static_cast<std::int64_t>(members.size()));
  if (operations_ > k_most_operations) {
    return failure(
        fmt::format("the schedule would have more than {} operations; predict or import fewer iterations",
                    k_most_operations));
  }
  if (is_point_to_point(op.kind)) {
    auto& [sends, receives] = messages_[{members.at(0), members.at(1)}];
    (op.kind == CommKind::send ? sends : receives) += calls;
  } else if (members.size() > 1) {
    collectives_[members][rank] += calls;
  }
  return {};
}

Result<void> GoalChecker::check_counts() const {
  for (const auto& [pair, counts] : messages_) {
    if (counts.first != counts.second) {
      return failure(
          fmt::format("rank {} sends {} messages to rank {}, which receives {} of them; GOAL needs the calls "
                      "of all ranks",
                      pair.first.value, counts.first, pair.second.value, counts.second));
    }
  }
  for (const auto& [members, calls] : collectives_) {
    const std::int64_t expected = calls.begin()->second;
    for (const Rank member : members) {
      const auto found = calls.find(member);
      const std::int64_t made = found == calls.end() ? 0 : found->second;
      if (made != expected) {
        return failure(
            fmt::format("rank {} makes {} calls on a group of {} ranks on which rank {} makes {}; GOAL needs "
                        "the calls of all ranks",
                        calls.begin()->first.value, expected, members.size(), member.value, made));
      }
    }
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

Result<GoalPlan> plan_goal(const Trace& trace) { return GoalChecker(trace).check(); }

}  // namespace commlens
