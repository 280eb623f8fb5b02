#include "commlens/bench/replay_meetings.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/bench/replay_text.hpp"

namespace commlens::bench {
namespace {

__extension__ using WideElements = __int128;

/// Calls of one rank, in order.
using CallList = std::vector<std::uint32_t>;

/// The messages from one rank to another over one communicator.
struct MessageLine {
  CallList sends;
  CallList receives;
};
using LineKey = std::tuple<std::uint32_t, std::int32_t, std::int32_t>;  // group, source, destination

/// The k-th call of each member of a group, as they are made.
struct Gathering {
  std::vector<CommCall*> calls;  // in group order
  bool is_even(const auto& part_of) const {
    return std::all_of(calls.begin(), calls.end(),
                       [&](const CommCall* call) { return part_of(*call) == part_of(*calls.front()); });
  }
  std::vector<Elements> all(const auto& part_of) const {
    std::vector<Elements> parts;
    for (const CommCall* const call : calls) {
      parts.push_back(part_of(*call));
    }
    return parts;
  }
};

Elements input_of(const CommCall& call) { return call.input; }
Elements output_of(const CommCall& call) { return call.output; }

Elements sum_of(const std::vector<Elements>& parts) {
  Elements sum;
  for (const Elements part : parts) {
    sum.value += part.value;
  }
  return sum;
}

/// Of gather and scatter: a rank's part, and all of them, which are at the root.
Elements part_of_other(const CommCall& call) {
  return call.other == OtherCall::gather ? call.input : call.output;
}
Elements whole_of_other(const Gathering& gathering) {
  const CommCall& root = *gathering.calls.at(static_cast<std::size_t>(gathering.calls.front()->peer.value));
  return root.other == OtherCall::gather ? root.output : root.input;
}

/// What all members of a group must have in common.
auto common_of(const CommCall& call) {
  const bool has_own_sizes = call.kind == CommKind::all_to_all || call.kind == CommKind::other;
  const Elements size = has_own_sizes                       ? Elements{}
                        : call.kind == CommKind::all_gather ? call.output
                                                            : call.input;
  const bool names_root = has_root(call.kind) || call.kind == CommKind::other;
  return std::tuple(call.kind, call.other, call.dtype, size, names_root ? call.peer : GroupRank{});
}

class CallMatcher {
 public:
  explicit CallMatcher(ReplayPlan& plan) : plan_(plan), collectives_(plan.groups.size()) {}

  std::optional<std::string> matched() {
    collect();
    for (std::uint32_t group = 0; group < plan_.groups.size(); ++group) {
      if (auto problem = match_group(group)) {
        return problem;
      }
    }
    for (const auto& [key, line] : messages_) {
      if (auto problem = match_line(key, line)) {
        return problem;
      }
    }
    return std::nullopt;
  }

 private:
  RankProgram& program(Rank rank) { return plan_.ranks[static_cast<std::size_t>(rank.value)]; }
  ReplayCall& call(Rank rank, std::uint32_t at) { return program(rank).calls[at]; }
  CommCall& made(Rank rank, std::uint32_t at) { return program(rank).ops[call(rank, at).op].call; }

  void collect();
  CallList& list_of(const ReplayOp& op, Rank rank);
  std::optional<std::string> match_group(std::uint32_t group);
  std::optional<std::string> match_line(const LineKey& key, const MessageLine& line);
  std::optional<std::string> match_gathering(const ReplayGroup& group, std::size_t number,
                                             const std::vector<CallList>& lists);
  std::optional<std::string> divide(Gathering& gathering);
  std::optional<std::string> divide_other(Gathering& gathering);
  std::span<const Elements> keep(std::vector<Elements> parts) {
    return plan_.parts.emplace_back(std::move(parts));
  }

  ReplayPlan& plan_;
  std::vector<std::vector<CallList>> collectives_;  // by group, then member
  std::map<LineKey, MessageLine> messages_;
};

void CallMatcher::collect() {
  for (std::uint32_t group = 0; group < plan_.groups.size(); ++group) {
    const ReplayGroup& made_on = plan_.groups[group];
    collectives_[group].resize(made_on.has_messages ? 0 : made_on.members.size());
  }
  for (Rank rank{0}; rank.value < static_cast<std::int64_t>(plan_.ranks.size()); ++rank.value) {
    std::vector<CallList*> lists;
    for (const ReplayOp& op : program(rank).ops) {
      lists.push_back(&list_of(op, rank));
    }
    for (std::uint32_t at = 0; at < program(rank).calls.size(); ++at) {
      lists[call(rank, at).op]->push_back(at);
    }
  }
}

CallList& CallMatcher::list_of(const ReplayOp& op, Rank rank) {
  const std::vector<Rank>& members = plan_.groups[op.group].members;
  if (!plan_.groups[op.group].has_messages) {
    const auto place = std::find(members.begin(), members.end(), rank) - members.begin();
    return collectives_[op.group][static_cast<std::size_t>(place)];
  }
  const auto self = static_cast<std::int32_t>(rank.value);
  const auto peer = static_cast<std::int32_t>(members[static_cast<std::size_t>(op.call.peer.value)].value);
  return op.call.kind == CommKind::send ? messages_[{op.group, self, peer}].sends
                                        : messages_[{op.group, peer, self}].receives;
}

std::optional<std::string> CallMatcher::match_group(std::uint32_t group) {
  const ReplayGroup& made_on = plan_.groups[group];
  const std::vector<CallList>& lists = collectives_[group];
  if (lists.empty()) {
    return std::nullopt;
  }
  const auto most = std::max_element(
      lists.begin(), lists.end(), [](const CallList& a, const CallList& b) { return a.size() < b.size(); });
  for (std::size_t member = 0; member < lists.size(); ++member) {
    if (lists[member].size() != most->size()) {
      return fmt::format(
          "rank {} makes {} calls on {}, on which rank {} makes {}; a replay needs the calls of all ranks",
          made_on.members[member].value, lists[member].size(), replayed_text(made_on),
          made_on.members[static_cast<std::size_t>(most - lists.begin())].value, most->size());
    }
  }
  for (std::size_t number = 0; number < most->size(); ++number) {
    if (auto problem = match_gathering(made_on, number, lists)) {
      return problem;
    }
    for (std::size_t member = 0; member < lists.size(); ++member) {
      call(made_on.members[member], lists[member][number]).meeting =
          static_cast<std::uint32_t>(plan_.meetings.size());
    }
    plan_.meetings.push_back({.group = group});
  }
  return std::nullopt;
}

std::optional<std::string> CallMatcher::match_gathering(const ReplayGroup& group, std::size_t number,
                                                        const std::vector<CallList>& lists) {
  Gathering gathering;
  for (std::size_t member = 0; member < lists.size(); ++member) {
    CommCall& own = made(group.members[member], lists[member][number]);
    gathering.calls.push_back(&own);
    if (common_of(own) != common_of(*gathering.calls.front())) {
      return fmt::format(
          "call {} on {} is {} on rank {}, and {}{} on rank {}; the calls of a group must be the "
          "same in the same order",
          number, replayed_text(group), replayed_text(*gathering.calls.front()), group.members.front().value,
          replayed_text(own), own.peer != gathering.calls.front()->peer ? " with another root" : "",
          group.members[member].value);
    }
  }
  const CommCall& first = *gathering.calls.front();
  const auto ranks = static_cast<std::int64_t>(lists.size());
  const bool is_simple =
      first.kind == CommKind::all_gather ? gathering.is_even(input_of) && first.input * ranks == first.output
      : first.kind == CommKind::reduce_scatter
          ? gathering.is_even(output_of) && first.output * ranks == first.input
      : first.kind == CommKind::all_to_all ? gathering.is_even(input_of) && gathering.is_even(output_of) &&
                                                 first.input == first.output && first.input.value % ranks == 0
      : first.kind == CommKind::other
          ? gathering.is_even(part_of_other) && whole_of_other(gathering) == part_of_other(first) * ranks
          : true;
  if (is_simple) {
    return std::nullopt;
  }
  for (std::size_t member = 0; member < lists.size(); ++member) {  // an op of its own for each
    RankProgram& own = program(group.members[member]);
    ReplayCall& shared = own.calls[lists[member][number]];
    own.ops.push_back(ReplayOp(own.ops[shared.op]));
    shared.op = static_cast<std::uint32_t>(own.ops.size() - 1);
  }
  for (std::size_t member = 0; member < lists.size(); ++member) {
    gathering.calls[member] = &made(group.members[member], lists[member][number]);
  }
  const std::optional<std::string> problem = divide(gathering);
  return problem ? std::optional(fmt::format("call {} on {}: {}", number, replayed_text(group), *problem))
                 : std::nullopt;
}

/// Gives calls of unequal parts the sizes of these.
std::optional<std::string> CallMatcher::divide(Gathering& gathering) {
  const CommKind kind = gathering.calls.front()->kind;
  const std::vector<Elements> inputs = gathering.all(input_of);
  const std::vector<Elements> outputs = gathering.all(output_of);
  if (kind == CommKind::all_gather) {
    if (sum_of(inputs) != outputs.front()) {
      return fmt::format("its ranks give {} elements to an all_gather of {}; the sizes do not fit together",
                         sum_of(inputs).value, outputs.front().value);
    }
    const std::span<const Elements> parts = keep(inputs);
    for (CommCall* const call : gathering.calls) {
      call->output_parts = parts;
    }
    return std::nullopt;
  }
  if (kind == CommKind::reduce_scatter) {
    if (sum_of(outputs) != inputs.front()) {
      return fmt::format("its ranks get {} elements of a reduce_scatter of {}; the sizes do not fit together",
                         sum_of(outputs).value, inputs.front().value);
    }
    const std::span<const Elements> parts = keep(outputs);
    for (CommCall* const call : gathering.calls) {
      call->input_parts = parts;
    }
    return std::nullopt;
  }
  if (kind == CommKind::other) {
    return divide_other(gathering);
  }
  if (sum_of(inputs) != sum_of(outputs)) {
    return fmt::format(
        "its ranks send {} elements in an all_to_all and receive {}; the sizes do not fit "
        "together",
        sum_of(inputs).value, sum_of(outputs).value);
  }
  const std::vector<std::vector<Elements>> rows = shared_parts(inputs, outputs);
  for (std::size_t member = 0; member < gathering.calls.size(); ++member) {
    std::vector<Elements> column;
    for (const std::vector<Elements>& row : rows) {
      column.push_back(row[member]);
    }
    gathering.calls[member]->input_parts = keep(rows[member]);
    gathering.calls[member]->output_parts = keep(std::move(column));
  }
  plan_.shared_sizes += static_cast<std::int64_t>(gathering.calls.size());
  return std::nullopt;
}

std::optional<std::string> CallMatcher::divide_other(Gathering& gathering) {
  const bool gathers = gathering.calls.front()->other == OtherCall::gather;
  const std::span<const Elements> parts = keep(gathering.all(part_of_other));
  const Elements whole = whole_of_other(gathering);
  if (const Elements sum = std::accumulate(parts.begin(), parts.end(), Elements{}); sum != whole) {
    return fmt::format("the parts of its {} have {} elements, its root {}; the sizes do not fit together",
                       gathers ? "gather" : "scatter", sum.value, whole.value);
  }
  for (CommCall* const call : gathering.calls) {
    (gathers ? call->output_parts : call->input_parts) = parts;
  }
  return std::nullopt;
}

std::optional<std::string> CallMatcher::match_line(const LineKey& key, const MessageLine& line) {
  const auto [group, source, destination] = key;
  if (line.sends.size() != line.receives.size()) {
    return fmt::format(
        "rank {} sends {} messages to rank {}, which receives {} of them; a replay needs the calls of all "
        "ranks",
        source, line.sends.size(), destination, line.receives.size());
  }
  for (std::size_t number = 0; number < line.sends.size(); ++number) {
    const Rank from{source};
    const Rank to{destination};
    const CommCall& send = made(from, line.sends[number]);
    const CommCall& receive = made(to, line.receives[number]);
    if (send.input != receive.output || send.dtype != receive.dtype) {
      return fmt::format(
          "message {} from rank {} to rank {} is a {}, and its receive a {}; messages that are received out "
          "of "
          "order cannot be replayed",
          number, source, destination, replayed_text(send), replayed_text(receive));
    }
    const auto meeting = static_cast<std::uint32_t>(plan_.meetings.size());
    call(from, line.sends[number]).meeting = meeting;
    call(to, line.receives[number]).meeting = meeting;
    plan_.meetings.push_back({.group = group, .source = source, .destination = destination});
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<Elements>> shared_parts(std::span<const Elements> sent,
                                                std::span<const Elements> received) {
  std::int64_t total = 0;
  for (const Elements part : sent) {
    total += part.value;
  }
  std::vector<std::vector<Elements>> rows(sent.size(), std::vector<Elements>(received.size()));
  std::vector<std::int64_t> left(received.size());  // of what each gets
  for (std::size_t to = 0; to < received.size(); ++to) {
    left[to] = received[to].value;
    for (std::size_t from = 0; from < sent.size() && total > 0; ++from) {
      rows[from][to].value =
          static_cast<std::int64_t>(static_cast<WideElements>(sent[from].value) * received[to].value / total);
      left[to] -= rows[from][to].value;
    }
  }
  for (std::size_t from = 0; from < sent.size(); ++from) {  // what was rounded down
    std::int64_t rest = sent[from].value;
    for (const Elements part : rows[from]) {
      rest -= part.value;
    }
    for (std::size_t to = 0; rest > 0 && to < received.size(); ++to) {
      const std::int64_t more = std::min(rest, left[to]);
      rows[from][to].value += more;
      left[to] -= more;
      rest -= more;
    }
  }
  return rows;
}

Result<void> match_calls(ReplayPlan& plan) {
  if (const std::optional<std::string> problem = CallMatcher(plan).matched()) {
    return failure(*problem);
  }
  return {};
}

}  // namespace commlens::bench
