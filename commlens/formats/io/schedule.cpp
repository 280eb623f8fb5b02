#include "commlens/formats/io/schedule.hpp"

#include <utility>

#include "commlens/formats/io/schedule_planner.hpp"
#include "commlens/formats/io/schedule_walk.hpp"

namespace commlens::formats {

/// The parts of an all_to_all differ from rank to rank, and so may the shards of an all_gather.
CallSignature signature_of(const CommOp& op) {
  const Elements elements = op.kind == CommKind::all_gather ? op.output : op.input;
  return {.kind = op.kind,
          .bytes = op.kind == CommKind::all_to_all ? 0 : (elements * op.dtype).value,
          .root = op.root ? op.root->value : -1};
}

CallSchedule::CallSchedule(const Trace& trace, bool has_order) : trace_(trace), has_order_(has_order) {
  orders_.reserve(trace.streams.size());
  for (const RankStream& stream : trace.streams) {
    orders_.emplace_back(stream);
  }
  SchedulePlanner(*this).plan();
  if (!mismatch_ && !has_order_) {
    ScheduleWalk(*this).walk();
  }
}

CallRole CallSchedule::role(OpId id, Rank rank) const {
  const CommOp& op = trace_.op(id);
  if (op.kind == CommKind::other || !trace_.groups.knows_members(op.group)) {
    return {};
  }
  std::vector<Rank> members = trace_.groups.members(op.group, rank);
  if (is_point_to_point(op.kind)) {
    const auto pair = members.size() == 2 ? pair_ids_.find({members[0], members[1]}) : pair_ids_.end();
    const auto kind = op.kind == CommKind::send ? CallRole::Kind::send : CallRole::Kind::receive;
    return pair == pair_ids_.end() ? CallRole{} : CallRole{kind, pair->second};
  }
  const auto group = series_ids_.find({trace_.groups.communicator(op.group), std::move(members)});
  if (group == series_ids_.end() || group->second.empty()) {
    return {};
  }
  const std::map<CallSignature, std::uint32_t>& series = group->second;
  const auto found = series.size() == 1 ? series.begin() : series.find(signature_of(op));
  return found == series.end() ? CallRole{} : CallRole{CallRole::Kind::collective, found->second};
}

std::uint32_t CallSchedule::waited_at(const CallOrder& order, Rank rank, std::uint32_t position) const {
  if (!later_waits_.empty()) {
    if (const auto later = later_waits_.find({rank.value, position}); later != later_waits_.end()) {
      return later->second;
    }
  }
  return order.waited_at(position);
}

const std::vector<std::uint32_t>* CallSchedule::let_pass(Rank rank, std::uint32_t position) const {
  const auto found = let_pass_.empty() ? let_pass_.end() : let_pass_.find({rank.value, position});
  return found == let_pass_.end() ? nullptr : &found->second;
}

CallRole ScheduledRank::role(OpId op) {
  const auto [found, added] = roles_.try_emplace(static_cast<std::uint32_t>(op));
  if (added) {
    found->second = schedule_.role(op, rank_);
  }
  return found->second;
}

bool ScheduledRank::next(ScheduledCall& call) {
  if (position_ >= order_.calls()) {
    return false;
  }
  call = {};
  call.position = position_++;
  call.row = order_.row(call.position);
  call.waited_at = schedule_.waited_at(order_, rank_, call.position);
  call.role = role(stream_.events[call.row].op);
  if (call.role.kind == CallRole::Kind::nothing) {
    return true;
  }
  call.number = calls_[(std::uint64_t{call.role.index} << 2U) + static_cast<std::uint64_t>(call.role.kind)]++;
  if (call.role.kind == CallRole::Kind::collective) {
    const CollectiveSeries& series = schedule_.series()[call.role.index];
    call.tag = series.first_tag + (series.has_tag_per_call ? call.number : 0);
    return true;
  }
  const MessagePair& pair = schedule_.pairs()[call.role.index];
  if (!pair.matched.empty()) {
    call.number = call.role.kind == CallRole::Kind::receive ? pair.matched[call.number] : call.number;
    call.tag = call.number + 1;
  }
  return true;
}

}  // namespace commlens::formats
