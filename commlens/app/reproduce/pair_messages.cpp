#include "commlens/app/reproduce/pair_messages.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace commlens::study {
namespace {

/// One end of a message.
struct MessageEnd {
  Bytes message;
  Times times;
};

/// Both ends of all messages of an ordered pair, in the order in which they were issued.
struct PairEnds {
  std::vector<MessageEnd> sends;
  std::vector<MessageEnd> receives;
};

using EndsByPair = std::map<std::pair<Rank, Rank>, PairEnds>;

void add_ends(EndsByPair& pairs, const Trace& trace, const RankStream& stream) {
  for (std::size_t at = 0; at < stream.times.size(); ++at) {
    const CommOp& op = trace.op(stream.events[at].op);
    const std::vector<Rank> members = trace.groups.members(op.group, stream.ranks.first);
    if (!is_point_to_point(op.kind) || members.empty()) {  // a hidden group has none
      continue;
    }
    PairEnds& ends = pairs[{members.front(), members.back()}];
    const bool is_send = op.kind == CommKind::send;
    (is_send ? ends.sends : ends.receives)
        .push_back({(is_send ? op.input : op.output) * op.dtype, stream.times[at]});
  }
}

std::chrono::nanoseconds median_of(std::vector<std::chrono::nanoseconds> values) {
  if (values.empty()) {
    return {};
  }
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The median of the calls behind the first.
CallTime later_time(const std::vector<CallTime>& calls) {
  std::vector<std::chrono::nanoseconds> durations;
  std::vector<std::chrono::nanoseconds> moving;
  for (std::size_t at = 1; at < calls.size(); ++at) {
    durations.push_back(calls[at].duration);
    if (calls[at].moving) {
      moving.push_back(*calls[at].moving);
    }
  }
  CallTime later{median_of(durations), {}};
  if (!moving.empty()) {
    later.moving = median_of(moving);
  }
  return later;
}

PairCalls calls_between(CommKind op, const std::pair<Rank, Rank>& pair, const PairEnds& ends) {
  const std::vector<MessageEnd>& own = op == CommKind::send ? ends.sends : ends.receives;
  std::vector<CallTime> calls;
  for (std::size_t at = 0; at < own.size(); ++at) {
    const Times& times = own[at].times;
    CallTime& call = calls.emplace_back(CallTime{times.finished - times.started, {}});
    if (op == CommKind::recv) {
      call.duration = times.finished - times.issued;
      const std::chrono::nanoseconds both = std::max(times.issued, ends.sends[at].times.issued);
      call.moving = std::max(times.finished - both, std::chrono::nanoseconds(0));
    }
  }
  return {op,
          pair.first,
          pair.second,
          own.front().message,
          calls.front(),
          std::ssize(calls) - 1,
          later_time(calls)};
}

}  // namespace

std::vector<PairCalls> pair_calls(const Trace& trace) {
  EndsByPair pairs;
  for (const RankStream& stream : trace.streams) {
    add_ends(pairs, trace, stream);
  }
  std::vector<PairCalls> calls;
  for (const CommKind op : {CommKind::recv, CommKind::send}) {
    for (const auto& [pair, ends] : pairs) {
      if (!ends.receives.empty() && ends.receives.size() == ends.sends.size()) {
        calls.push_back(calls_between(op, pair, ends));
      }
    }
  }
  return calls;
}

}  // namespace commlens::study
