#include "commlens/bench/replay_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/bench/replay_buffers.hpp"
#include "commlens/bench/replay_check.hpp"
#include "commlens/bench/replay_meetings.hpp"
#include "commlens/bench/replay_others.hpp"
#include "commlens/bench/replay_steps.hpp"
#include "commlens/bench/replay_text.hpp"
#include "commlens/transport/reduce_kernels.hpp"

namespace commlens::bench {
namespace {

using std::chrono::nanoseconds;

/// Whether it is for messages; the communicator's number; without one, the axis; members of collectives; type
/// and size of messages that have a communicator for each.
using GroupName = std::tuple<bool, CommunicatorId, Axis, std::vector<Rank>, DType, Elements>;

/// Ranks of two communicators that have both are in separate splits.
void add_splits(ReplayPlan& plan) {
  std::vector<std::vector<bool>> taken;  // by split, then rank
  std::vector<std::int64_t> colors;
  for (ReplayGroup& group : plan.groups) {
    const auto is_free = [&](const std::vector<bool>& ranks) {
      return std::none_of(group.members.begin(), group.members.end(),
                          [&](Rank rank) { return ranks[static_cast<std::size_t>(rank.value)]; });
    };
    auto split = std::find_if(taken.begin(), taken.end(), is_free);
    if (split == taken.end()) {
      taken.emplace_back(plan.ranks.size());
      colors.push_back(0);
      split = std::prev(taken.end());
    }
    for (const Rank member : group.members) {
      (*split)[static_cast<std::size_t>(member.value)] = true;
    }
    group.split = static_cast<std::size_t>(split - taken.begin());
    group.color = colors[group.split]++;
  }
  plan.splits = taken.size();
}

bool is_floating(DType dtype) {
  return dtype == DType::fp64 || dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

/// The combination of values that costs as much as the recorded one, where no transport has that.
ReduceOp reduction_like(const CommOp& op) {
  switch (op.reduction) {
    case Reduction::max:
    case Reduction::min:
      return ReduceOp::max;
    case Reduction::avg:
      return is_floating(op.dtype) ? ReduceOp::avg : ReduceOp::sum;
    default:
      return ReduceOp::sum;
  }
}

class ReplayPlanner {
 public:
  /// `parts_sizes`: messages of each size, and type, have a communicator of their own, on which they are in
  /// order whatever order those of other sizes are received in.
  ReplayPlanner(const Trace& trace, const ReplaySelection& selection, bool parts_sizes)
      : trace_(trace), selection_(selection), parts_sizes_(parts_sizes) {}

  /// Why it cannot be replayed; std::nullopt: plan() is complete but for what others add.
  std::optional<std::string> collect();
  ReplayPlan take() { return std::move(plan_); }
  bool is_predicted() const {
    return !plan_.has_times && (trace_.provenance.source == Source::predicted || has_rules_);
  }

 private:
  struct RowsToReplay {
    const RankStream* stream = nullptr;
    std::vector<std::uint32_t> rows;  // in the order of issue
  };

  bool is_wanted(const CommEvent& event) const {
    return !selection_.iterations || (event.iteration >= selection_.iterations->first &&
                                      event.iteration <= selection_.iterations->second);
  }
  std::optional<std::string> check_ranks() const;
  std::optional<std::string> add_rank(Rank rank);
  std::optional<std::string> add_op(const CommEvent& event, Rank rank, ReplayOp& made);
  std::optional<std::string> check_op(const CommOp& op, Rank rank) const;
  std::optional<std::string> check_members(const std::vector<Rank>& members, Rank rank) const;
  std::uint32_t group_of(const CommOp& op, const std::vector<Rank>& members);
  void number_groups();
  void add_steps();
  nanoseconds begin() const;

  const Trace& trace_;
  const ReplaySelection& selection_;
  bool parts_sizes_;
  ReplayPlan plan_;
  std::vector<RowsToReplay> rows_;                // by rank
  std::map<GroupName, std::uint32_t> group_ids_;  // in the order of their discovery
  std::vector<std::set<Rank>> message_members_;   // by group
  bool has_rules_ = false;
};

std::optional<std::string> ReplayPlanner::check_ranks() const {
  if (trace_.provenance.accounting == Accounting::comms_logger) {
    return "a printed log has the calls of one rank in rounded sizes; a replay needs those of all ranks";
  }
  std::vector<Rank> missing;
  for (Rank rank{0}; rank.value < trace_.job_ranks(); ++rank.value) {
    if (trace_.stream_of(rank) == nullptr) {
      missing.push_back(rank);
    }
  }
  if (!missing.empty()) {
    return fmt::format(
        "the trace lacks {} of its {}; a replay needs the calls of all ranks: import or record "
        "them together",
        replayed_text(missing), trace_.job_ranks());
  }
  return trace_.job_ranks() == 0 ? std::optional<std::string>("the trace has no calls") : std::nullopt;
}

std::optional<std::string> ReplayPlanner::collect() {
  if (auto problem = check_ranks()) {
    return problem;
  }
  plan_.ranks.resize(static_cast<std::size_t>(trace_.job_ranks()));
  rows_.resize(plan_.ranks.size());
  plan_.has_times = !trace_.provenance.averaged_times &&
                    std::all_of(trace_.streams.begin(), trace_.streams.end(), [](const RankStream& stream) {
                      return stream.times.size() == stream.events.size();
                    });
  for (Rank rank{0}; rank.value < trace_.job_ranks(); ++rank.value) {
    if (auto problem = add_rank(rank)) {
      return problem;
    }
  }
  if (plan_.calls() == 0) {
    return "there are no calls to replay in this part of the trace";
  }
  number_groups();
  add_steps();
  return std::nullopt;
}

std::optional<std::string> ReplayPlanner::add_rank(Rank rank) {
  RowsToReplay& own = rows_[static_cast<std::size_t>(rank.value)];
  RankProgram& program = plan_.ranks[static_cast<std::size_t>(rank.value)];
  own.stream = trace_.stream_of(rank);
  const std::vector<CommEvent>& events = own.stream->events;
  std::unordered_map<std::uint32_t, bool> unmade;  // ops of kind other
  const auto is_unmade = [&](OpId op) {
    if (trace_.op(op).kind != CommKind::other) {
      return false;
    }
    const auto [found, added] = unmade.try_emplace(static_cast<std::uint32_t>(op), false);
    found->second = added ? fault_of_other(trace_, trace_.op(op), rank).has_value() : found->second;
    return found->second;
  };
  for (std::uint32_t row = 0; row < events.size(); ++row) {
    if (!is_wanted(events[row])) {
      continue;
    }
    if (selection_.skip_other && is_unmade(events[row].op)) {
      ++plan_.skipped_other;
    } else {
      own.rows.push_back(row);
    }
  }
  if (plan_.has_times) {
    std::stable_sort(own.rows.begin(), own.rows.end(), [&](std::uint32_t a, std::uint32_t b) {
      return own.stream->times[a].issued < own.stream->times[b].issued;
    });
  }
  std::unordered_map<std::uint32_t, std::uint32_t> known;  // rows of the trace's ops to those of the program
  for (const std::uint32_t row : own.rows) {
    const CommEvent& event = events[row];
    const auto [found, added] = known.try_emplace(static_cast<std::uint32_t>(event.op),
                                                  static_cast<std::uint32_t>(program.ops.size()));
    if (added) {
      if (auto problem = add_op(event, rank, program.ops.emplace_back())) {
        return problem;
      }
    }
    program.calls.push_back(
        {.row = row, .op = found->second, .iteration = event.iteration, .micro_batch = event.micro_batch});
  }
  return std::nullopt;
}

std::optional<std::string> ReplayPlanner::check_op(const CommOp& op, Rank rank) const {
  if (op.kind == CommKind::other) {
    if (std::optional<std::string> fault = fault_of_other(trace_, op, rank)) {
      return fault;
    }
  }
  if (!trace_.groups.knows_members(op.group)) {
    const std::int64_t size = trace_.groups.size(op.group);
    return fmt::format(
        "the trace does not say which {}ranks its group has; import the files of all ranks together",
        size > 0 ? fmt::format("{} ", size) : "");
  }
  if (op.rounding.value != 0) {
    return "the trace has its size rounded, as it was printed";
  }
  if (has_root(op.kind) && !op.root && trace_.groups.size(op.group) > 1) {
    return "the trace does not say which rank is the root";
  }
  if (is_reducing(op.kind) && !can_combine(op.dtype)) {
    return fmt::format("{} cannot be combined here", name_of(op.dtype));
  }
  const bool is_same_on_both = op.kind == CommKind::all_reduce || has_root(op.kind);
  if (is_same_on_both && op.input != op.output) {
    return fmt::format("its input of {} elements and its output of {} should be as large", op.input.value,
                       op.output.value);
  }
  return std::nullopt;
}

std::optional<std::string> ReplayPlanner::check_members(const std::vector<Rank>& members, Rank rank) const {
  if (std::find(members.begin(), members.end(), rank) == members.end()) {
    return fmt::format("the rank is not in its group ({})", replayed_text(members));
  }
  const auto outside = std::find_if(members.begin(), members.end(), [&](Rank member) {
    return member.value < 0 || member.value >= static_cast<std::int64_t>(plan_.ranks.size());
  });
  if (outside != members.end()) {
    return fmt::format(
        "its group has rank {}, and the trace the calls of ranks 0 to {} alone; import the files "
        "of all ranks together",
        outside->value, plan_.ranks.size() - 1);
  }
  return std::nullopt;
}

std::uint32_t ReplayPlanner::group_of(const CommOp& op, const std::vector<Rank>& members) {
  const CommunicatorId communicator = trace_.groups.communicator(op.group);
  const Axis axis = trace_.groups.axis(op.group);
  const bool has_messages = is_point_to_point(op.kind);
  const bool is_numbered = communicator != k_no_communicator;
  GroupName name{has_messages,
                 communicator,
                 is_numbered ? Axis() : axis,
                 has_messages ? std::vector<Rank>() : members,
                 parts_sizes_ && has_messages ? op.dtype : DType::uint8,
                 parts_sizes_ && has_messages ? std::max(op.input, op.output) : Elements()};
  const auto [found, added] =
      group_ids_.try_emplace(std::move(name), static_cast<std::uint32_t>(plan_.groups.size()));
  if (added) {
    plan_.groups.push_back(
        {.members = members, .axis = axis, .communicator = communicator, .has_messages = has_messages});
    message_members_.emplace_back();
  }
  if (has_messages) {
    message_members_[found->second].insert(members.begin(), members.end());
  }
  return found->second;
}

/// `event` is the first one of the op.
std::optional<std::string> ReplayPlanner::add_op(const CommEvent& event, Rank rank, ReplayOp& made) {
  const CommOp& op = trace_.op(event.op);
  has_rules_ = has_rules_ || op.rule != RuleId{};
  std::optional<std::string> problem = check_op(op, rank);
  const std::vector<Rank> members = problem ? std::vector<Rank>() : trace_.groups.members(op.group, rank);
  if (!problem) {
    problem = check_members(members, rank);
  }
  const bool is_message = is_point_to_point(op.kind);
  if (!problem && is_message && members == std::vector{rank, rank}) {
    problem = "it stays on its rank, and no transport carries such messages";
  }
  if (!problem && is_message && (members.size() != 2 || members[op.kind == CommKind::send ? 0 : 1] != rank)) {
    problem = "its group should be the rank that sends and another one that receives";
  }
  if (problem) {
    const std::string iteration =
        event.iteration == k_unknown_iteration ? "" : fmt::format(", iteration {}", event.iteration);
    return fmt::format("{} of rank {}{}: {}", name_of(op.kind), rank.value, iteration, *problem);
  }
  made.group = group_of(op, members);
  made.phase = op.phase;
  made.may_block = op.blocking.value_or(true);
  CommCall& call = made.call;
  call.kind = op.kind;
  call.other = other_call_of(trace_, op);
  call.dtype = op.dtype;
  call.reduction = reduction_like(op);
  call.input = op.kind == CommKind::recv || op.kind == CommKind::barrier ? Elements{} : op.input;
  call.output = op.kind == CommKind::send || op.kind == CommKind::barrier ? Elements{} : op.output;
  call.tag = trace_.tags.text(op.tag);
  // Of messages a global rank until the group is complete.
  call.peer = is_message ? GroupRank{members[op.kind == CommKind::send ? 1 : 0].value}
                         : op.root.value_or(GroupRank{});
  return std::nullopt;
}

/// In the same order whatever order the calls are in; messages get their places in their groups.
void ReplayPlanner::number_groups() {
  std::vector<std::uint32_t> numbers(plan_.groups.size());
  std::vector<ReplayGroup> groups;
  for (const auto& [name, id] : group_ids_) {
    numbers[id] = static_cast<std::uint32_t>(groups.size());
    ReplayGroup& group = groups.emplace_back(std::move(plan_.groups[id]));
    if (group.has_messages) {
      group.members.assign(message_members_[id].begin(), message_members_[id].end());
    }
  }
  plan_.groups = std::move(groups);
  for (RankProgram& program : plan_.ranks) {
    for (ReplayOp& op : program.ops) {
      op.group = numbers[op.group];
      const std::vector<Rank>& members = plan_.groups[op.group].members;
      if (is_point_to_point(op.call.kind)) {
        const auto place = std::lower_bound(members.begin(), members.end(), Rank{op.call.peer.value});
        op.call.peer = GroupRank{place - members.begin()};
      }
    }
  }
  add_splits(plan_);
}

/// When the first rank issued its first call.
nanoseconds ReplayPlanner::begin() const {
  nanoseconds first = nanoseconds::max();
  for (const RowsToReplay& own : rows_) {
    if (!own.rows.empty()) {
      first = std::min(first, own.stream->times[own.rows.front()].issued);
    }
  }
  return first;
}

void ReplayPlanner::add_steps() {
  const nanoseconds first = plan_.has_times ? begin() : nanoseconds(0);
  std::vector<std::vector<Times>> times(rows_.size());
  nanoseconds longest{};
  for (std::size_t rank = 0; plan_.has_times && rank < rows_.size(); ++rank) {
    for (const std::uint32_t row : rows_[rank].rows) {
      times[rank].push_back(rows_[rank].stream->times[row]);
    }
    for (const Times& each : times[rank]) {
      longest = std::max(longest, each.finished - times[rank].front().issued);
    }
  }
  for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
    RankProgram& program = plan_.ranks[rank];
    if (!plan_.has_times || times[rank].empty()) {
      program.steps = steps_without_times(program.calls.size());
      continue;
    }
    // Clocks that stand further apart than the job is long have not been brought together.
    const nanoseconds own = times[rank].front().issued;
    const nanoseconds begin = own - first > longest + std::chrono::seconds(1) ? own : first;
    for (std::size_t call = 0; call < times[rank].size(); ++call) {
      program.calls[call].issued = times[rank][call].issued - begin;
    }
    program.steps = timed_steps(times[rank], rows_[rank].stream->compute, begin);
  }
}

/// A call is made as a blocking one where all of its ranks wait for it at once: all must make it alike.
void choose_blocking(ReplayPlan& plan) {
  std::vector<bool> blocks(plan.meetings.size(), true);
  const auto visit = [&](const auto& change) {
    for (RankProgram& program : plan.ranks) {
      for (std::size_t at = 0; at < program.steps.size(); ++at) {
        const ReplayStep& step = program.steps[at];
        if (step.kind != ReplayStep::Kind::issue) {
          continue;
        }
        const bool is_waited_for = at + 1 < program.steps.size() && program.steps[at + 1].call == step.call &&
                                   program.steps[at + 1].busy == nanoseconds(0);
        ReplayCall& call = program.calls[step.call];
        change(call, is_waited_for && program.ops[call.op].may_block,
               is_point_to_point(program.ops[call.op].call.kind));
      }
    }
  };
  visit([&](const ReplayCall& call, bool own, bool is_message) {
    blocks[call.meeting] = blocks[call.meeting] && (own || is_message);
  });
  visit([&](ReplayCall& call, bool own, bool) { call.blocks = own && blocks[call.meeting]; });
}

Result<ReplayPlan> matched_plan(const Trace& trace, const ReplaySelection& selection, bool parts_sizes) {
  ReplayPlanner planner(trace, selection, parts_sizes);
  if (const std::optional<std::string> problem = planner.collect()) {
    return failure(*problem);
  }
  const bool late_waits = selection.late_waits || planner.is_predicted();
  ReplayPlan plan = planner.take();
  return match_calls(plan).and_then([&] { return settle_waits(plan, late_waits); }).map([&] {
    return std::move(plan);
  });
}

}  // namespace

std::int64_t ReplayPlan::calls() const {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [](std::int64_t sum, const RankProgram& rank) {
                           return sum + static_cast<std::int64_t>(rank.calls.size());
                         });
}

Result<ReplayPlan> replay_plan(const Trace& trace, const ReplaySelection& selection) {
  Result<ReplayPlan> plan = matched_plan(trace, selection, false);
  if (!plan) {
    if (Result<ReplayPlan> parted = matched_plan(trace, selection, true)) {
      plan = std::move(parted);
    }
  }
  return std::move(plan).map([](ReplayPlan&& matched) {
    choose_blocking(matched);
    for (RankProgram& program : matched.ranks) {
      place_buffers(program);
    }
    return std::move(matched);
  });
}

}  // namespace commlens::bench
