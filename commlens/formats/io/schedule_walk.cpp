#include "commlens/formats/io/schedule_walk.hpp"

#include <algorithm>

#include "commlens/base/check.hpp"

namespace commlens::formats {

ScheduleWalk::ScheduleWalk(CallSchedule& schedule)
    : schedule_(schedule),
      ranks_(static_cast<std::size_t>(schedule.trace_.ranks())),
      sent_(schedule.pairs_.size()),
      joined_(schedule.instances_) {
  for (const RankStream& stream : schedule.trace_.streams) {
    for (const Rank rank : stream.ranks) {
      RankState& state = ranks_[static_cast<std::size_t>(rank.value)].emplace(schedule, stream, rank);
      state.has_next = state.calls.next(state.next);
      queue(rank.value);
    }
  }
}

ScheduleWalk::RankState& ScheduleWalk::state_of(std::int64_t rank) {
  return ranks_[static_cast<std::size_t>(rank)].value();
}

void ScheduleWalk::queue(std::int64_t rank) {
  RankState& state = state_of(rank);
  if (!state.is_queued && state.has_next) {
    state.is_queued = true;
    ready_.push_back(rank);
  }
}

void ScheduleWalk::walk() {
  do {
    while (!ready_.empty()) {
      const std::int64_t rank = ready_.back();
      ready_.pop_back();
      run(rank);
    }
  } while (relax());
}

void ScheduleWalk::run(std::int64_t rank) {
  RankState& state = state_of(rank);
  state.is_queued = false;
  while (state.has_next && !waits_for_calls(state) && !waits_for_turn(state)) {
    carry_out(rank);
  }
}

bool ScheduleWalk::waits_for_calls(RankState& state) const {
  while (!state.open.empty() && state.open.top().waited_at <= state.next.position) {
    if (!is_over(state.open.top().call)) {
      return true;
    }
    state.open.pop();
  }
  return false;
}

bool ScheduleWalk::waits_for_turn(const RankState& state) {
  const bool takes_turn = state.next.role.kind == Kind::send || state.next.role.kind == Kind::collective;
  return takes_turn && !state.under_way.empty() && !state.may_pass;
}

void ScheduleWalk::carry_out(std::int64_t rank) {
  RankState& state = state_of(rank);
  const ScheduledCall call = state.next;
  if (call.role.kind == Kind::send) {
    for (const ScheduledCall& collective : state.under_way) {
      schedule_.let_pass_[{rank, collective.position}].push_back(call.position);
    }
    state.may_pass = false;
    ++sent_[call.role.index];
    queue(schedule_.pairs_[call.role.index].destination.value);
  } else if (call.role.kind == Kind::receive) {
    state.open.push({call.waited_at, call});
  } else if (call.role.kind == Kind::collective) {
    state.may_pass = false;
    state.open.push({call.waited_at, call});
    join(rank, call);
  }
  state.has_next = state.calls.next(state.next);
}

void ScheduleWalk::join(std::int64_t rank, const ScheduledCall& call) {
  RankState& state = state_of(rank);
  state.under_way.push_back(call);
  ++state.joined[call.role.index];
  const CollectiveSeries& series = schedule_.series_[call.role.index];
  const std::uint32_t instance = instance_of(call);
  if (++joined_[instance] == series.members.size()) {
    for (const Rank member : series.members) {
      leave(member, instance);
    }
  }
}

/// Whatever of the rank is still under way began before and ends later.
void ScheduleWalk::leave(Rank member, std::uint32_t instance) {
  std::vector<ScheduledCall>& under_way = state_of(member.value).under_way;
  const auto left = std::find_if(under_way.begin(), under_way.end(),
                                 [&](const ScheduledCall& call) { return instance_of(call) == instance; });
  const std::uint32_t position = left->position;
  under_way.erase(left);
  for (const ScheduledCall& collective : under_way) {
    schedule_.let_pass_[{member.value, collective.position}].push_back(position);
  }
  queue(member.value);
}

std::uint32_t ScheduleWalk::instance_of(const ScheduledCall& call) const {
  return schedule_.series_[call.role.index].first_instance + call.number;
}

bool ScheduleWalk::is_over(const ScheduledCall& call) const {
  return call.role.kind == Kind::receive
             ? sent_[call.role.index] > call.number
             : joined_[instance_of(call)] == schedule_.series_[call.role.index].members.size();
}

std::int64_t ScheduleWalk::first_absent(const ScheduledCall& collective) {
  for (const Rank member : schedule_.series_[collective.role.index].members) {
    if (state_of(member.value).joined[collective.role.index] <= collective.number) {
      return member.value;
    }
  }
  return -1;
}

ScheduleWalk::Block ScheduleWalk::block_of(std::int64_t rank) {
  RankState& state = state_of(rank);
  if (!state.has_next) {
    return {};
  }
  if (!waits_for_calls(state)) {
    return {.reason = Reason::turn, .waits_for = first_absent(state.under_way.front())};
  }
  const ScheduledCall& open = state.open.top().call;
  if (open.role.kind == Kind::collective) {
    return {.reason = Reason::any, .waits_for = first_absent(open)};
  }
  const bool is_message = state.next.role.kind == Kind::send || state.next.role.kind == Kind::receive;
  return {.reason = is_message ? Reason::receive : Reason::any,
          .waits_for = schedule_.pairs_[open.role.index].source.value};
}

/// Every rank that has calls left waits for one that has, so there is a circle. False when all are through.
bool ScheduleWalk::relax() {
  std::vector<Block> blocks(ranks_.size());
  bool is_through = true;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    blocks[rank] = ranks_[rank] ? block_of(static_cast<std::int64_t>(rank)) : Block{};
    is_through = is_through && blocks[rank].reason == Reason::none;
  }
  if (is_through) {
    return false;
  }
  std::vector<std::size_t> seen_by(ranks_.size(), ranks_.size());
  bool found = false;
  for (std::size_t start = 0; start < ranks_.size(); ++start) {
    std::size_t rank = start;
    while (blocks[rank].reason != Reason::none && seen_by[rank] == ranks_.size()) {
      seen_by[rank] = start;
      rank = static_cast<std::size_t>(blocks[rank].waits_for);
    }
    if (blocks[rank].reason != Reason::none && seen_by[rank] == start) {
      std::vector<std::int64_t> circle;
      do {
        circle.push_back(static_cast<std::int64_t>(rank));
        rank = static_cast<std::size_t>(blocks[rank].waits_for);
      } while (static_cast<std::int64_t>(rank) != circle.front());
      relax_circle(circle, blocks);
      found = true;
    }
  }
  COMMLENS_CHECK(found, "ranks that wait for each other wait in a circle");
  return true;
}

void ScheduleWalk::relax_circle(const std::vector<std::int64_t>& circle, const std::vector<Block>& blocks) {
  const auto reason_of = [&](std::int64_t rank) { return blocks[static_cast<std::size_t>(rank)].reason; };
  Reason least = Reason::any;
  for (const std::int64_t rank : circle) {
    least = std::min(least, reason_of(rank));
  }
  for (const std::int64_t rank : circle) {
    if (reason_of(rank) != least) {
      continue;
    }
    if (least == Reason::turn) {
      state_of(rank).may_pass = true;
    } else {
      wait_later(rank);
    }
    queue(rank);
  }
}

void ScheduleWalk::wait_later(std::int64_t rank) {
  RankState& state = state_of(rank);
  Open open = state.open.top();
  state.open.pop();
  open.waited_at = state.next.position + 1;
  schedule_.later_waits_[{rank, open.call.position}] = open.waited_at;
  state.open.push(open);
}

}  // namespace commlens::formats
