#include "commlens/bench/replay_check.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/bench/replay_text.hpp"

namespace commlens::bench {
namespace {

/// What a rank in a circle waits for, those that may be waited for later first.
enum class HeldBy : std::uint8_t { nothing, send, receive_before_message, other };

/// A rank that waits.
struct HeldRank {
  HeldBy by = HeldBy::nothing;
  std::size_t waits_for = 0;  // the rank that has not made its part
};

class StepWalk {
 public:
  explicit StepWalk(ReplayPlan& plan)
      : plan_(plan),
        ranks_(plan.ranks.size()),
        joined_(plan.meetings.size()),
        first_waiter_(plan.meetings.size(), k_none) {
    first_meeting_.resize(plan.groups.size());
    for (std::size_t at = plan.meetings.size(); at-- > 0;) {
      first_meeting_[plan.meetings[at].group] = static_cast<std::uint32_t>(at);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].slots.reserve(plan.ranks[rank].ops.size());
      for (const ReplayOp& op : plan.ranks[rank].ops) {
        ranks_[rank].slots.push_back(slot_of(ranks_[rank], op.group));
      }
      ready_.push_back(rank);
    }
  }

  std::optional<std::string> walk(bool late_waits) {
    while (true) {
      while (!ready_.empty()) {
        const std::size_t rank = ready_.back();
        ready_.pop_back();
        go_on(rank);
      }
      const std::vector<HeldRank> held = held_ranks();
      const std::vector<std::vector<std::size_t>> circles = circles_of(held);
      if (circles.empty()) {
        return std::nullopt;
      }
      for (const std::vector<std::size_t>& circle : circles) {
        if (!open(circle, held, late_waits)) {
          return text_of(circle, held);
        }
      }
    }
  }

 private:
  static constexpr std::size_t k_none = SIZE_MAX;

  struct WalkedRank {
    std::size_t next = 0;              // step
    std::size_t next_waiter = k_none;  // of the same meeting
    std::vector<std::size_t> slots;    // by op
    std::vector<std::pair<std::uint32_t, std::uint32_t>>
        made;  // by slot: group, and collectives issued on it
  };

  static std::size_t slot_of(WalkedRank& state, std::uint32_t group) {
    const auto found = std::find_if(state.made.begin(), state.made.end(),
                                    [&](const auto& made) { return made.first == group; });
    if (found != state.made.end()) {
      return static_cast<std::size_t>(found - state.made.begin());
    }
    state.made.emplace_back(group, 0U);
    return state.made.size() - 1;
  }

  const ReplayCall& call_of(std::size_t rank, const ReplayStep& step) const {
    return plan_.ranks[rank].calls[step.call];
  }
  const CommCall& made(std::size_t rank, const ReplayStep& step) const {
    return plan_.ranks[rank].ops[call_of(rank, step).op].call;
  }
  const ReplayStep& step_of(std::size_t rank) const { return plan_.ranks[rank].steps[ranks_[rank].next]; }
  bool is_through(std::size_t rank) const { return ranks_[rank].next == plan_.ranks[rank].steps.size(); }
  bool is_complete(std::uint32_t meeting) const {
    const ReplayMeeting& of = plan_.meetings[meeting];
    const std::size_t needed = of.source >= 0 ? 2 : plan_.groups[of.group].members.size();
    return joined_[meeting] == needed;
  }

  void go_on(std::size_t rank);
  void join(std::size_t rank, const ReplayCall& call);
  std::size_t absent(std::size_t rank, std::uint32_t meeting) const;
  std::vector<HeldRank> held_ranks() const;
  std::vector<std::vector<std::size_t>> circles_of(const std::vector<HeldRank>& held) const;
  bool open(const std::vector<std::size_t>& circle, const std::vector<HeldRank>& held, bool late_waits);
  void wait_later(std::size_t rank);
  std::string text_of(const std::vector<std::size_t>& circle, const std::vector<HeldRank>& held) const;

  ReplayPlan& plan_;
  std::vector<WalkedRank> ranks_;
  std::vector<std::uint32_t> joined_;         // by meeting: calls that were issued
  std::vector<std::size_t> first_waiter_;     // by meeting: a rank
  std::vector<std::uint32_t> first_meeting_;  // by group
  std::vector<std::size_t> ready_;
};

void StepWalk::go_on(std::size_t rank) {
  WalkedRank& state = ranks_[rank];
  for (; !is_through(rank); ++state.next) {
    const ReplayStep& step = step_of(rank);
    const ReplayCall& call = call_of(rank, step);
    if (step.kind == ReplayStep::Kind::issue) {
      join(rank, call);
    } else if (!is_complete(call.meeting)) {
      state.next_waiter = std::exchange(first_waiter_[call.meeting], rank);
      return;
    }
  }
}

void StepWalk::join(std::size_t rank, const ReplayCall& call) {
  WalkedRank& state = ranks_[rank];
  ++state.made[state.slots[call.op]].second;
  ++joined_[call.meeting];
  if (!is_complete(call.meeting)) {
    return;
  }
  for (std::size_t waiter = std::exchange(first_waiter_[call.meeting], k_none); waiter != k_none;) {
    ready_.push_back(waiter);
    waiter = std::exchange(ranks_[waiter].next_waiter, k_none);
  }
}

/// A rank that has not made its part of a call that `rank` has made.
std::size_t StepWalk::absent(std::size_t rank, std::uint32_t meeting) const {
  const ReplayMeeting& of = plan_.meetings[meeting];
  if (of.source >= 0) {
    return static_cast<std::size_t>(static_cast<std::size_t>(of.source) == rank ? of.destination : of.source);
  }
  const std::uint32_t number = meeting - first_meeting_[of.group];
  for (const Rank member : plan_.groups[of.group].members) {
    const WalkedRank& state = ranks_[static_cast<std::size_t>(member.value)];
    const auto found = std::find_if(state.made.begin(), state.made.end(),
                                    [&](const auto& made) { return made.first == of.group; });
    if (found == state.made.end() || found->second <= number) {
      return static_cast<std::size_t>(member.value);
    }
  }
  COMMLENS_CHECK(false, "an incomplete call has a member that has not made it");
  return rank;
}

std::vector<HeldRank> StepWalk::held_ranks() const {
  std::vector<HeldRank> held(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_through(rank)) {
      continue;
    }
    const ReplayStep& step = step_of(rank);
    held[rank].waits_for = absent(rank, call_of(rank, step).meeting);
    const std::vector<ReplayStep>& steps = plan_.ranks[rank].steps;
    const auto next =
        std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(ranks_[rank].next), steps.end(),
                     [](const ReplayStep& each) { return each.kind == ReplayStep::Kind::issue; });
    const bool has_message_next = next != steps.end() && is_point_to_point(made(rank, *next).kind);
    const CommKind kind = made(rank, step).kind;
    held[rank].by = kind == CommKind::send                       ? HeldBy::send
                    : kind == CommKind::recv && has_message_next ? HeldBy::receive_before_message
                                                                 : HeldBy::other;
  }
  return held;
}

/// A rank waits for one that has steps left, so there is a circle as long as one has.
std::vector<std::vector<std::size_t>> StepWalk::circles_of(const std::vector<HeldRank>& held) const {
  std::vector<std::vector<std::size_t>> circles;
  std::vector<std::size_t> seen_from(held.size(), k_none);
  for (std::size_t start = 0; start < held.size(); ++start) {
    std::size_t rank = start;
    while (held[rank].by != HeldBy::nothing && seen_from[rank] == k_none) {
      seen_from[rank] = start;
      rank = held[rank].waits_for;
    }
    if (held[rank].by == HeldBy::nothing || seen_from[rank] != start) {
      continue;
    }
    std::vector<std::size_t>& circle = circles.emplace_back();
    do {
      circle.push_back(rank);
      rank = held[rank].waits_for;
    } while (rank != circle.front());
  }
  return circles;
}

bool StepWalk::open(const std::vector<std::size_t>& circle, const std::vector<HeldRank>& held,
                    bool late_waits) {
  HeldBy least = HeldBy::other;
  for (const std::size_t rank : circle) {
    least = std::min(least, held[rank].by);
  }
  if (least != HeldBy::send && !late_waits) {
    return false;
  }
  for (const std::size_t rank : circle) {
    if (held[rank].by == least) {
      wait_later(rank);
    }
  }
  return true;
}

/// Behind the next issue, which there is: others wait for it.
void StepWalk::wait_later(std::size_t rank) {
  WalkedRank& state = ranks_[rank];
  std::vector<ReplayStep>& steps = plan_.ranks[rank].steps;
  const auto wait = steps.begin() + static_cast<std::ptrdiff_t>(state.next);
  std::size_t* link = &first_waiter_[call_of(rank, *wait).meeting];
  while (*link != rank) {
    link = &ranks_[*link].next_waiter;
  }
  *link = std::exchange(state.next_waiter, k_none);
  const auto issue = std::find_if(
      wait, steps.end(), [](const ReplayStep& step) { return step.kind == ReplayStep::Kind::issue; });
  COMMLENS_CHECK(issue != steps.end(), "a rank that others wait for has a call to make");
  std::next(wait)->busy += std::exchange(wait->busy, std::chrono::nanoseconds(0));
  std::rotate(wait, std::next(wait), std::next(issue));
  ++plan_.later_waits;
  ready_.push_back(rank);
}

std::string StepWalk::text_of(const std::vector<std::size_t>& circle,
                              const std::vector<HeldRank>& held) const {
  constexpr std::size_t k_most = 4;
  std::string text;
  for (std::size_t at = 0; at < std::min(circle.size(), k_most); ++at) {
    const std::size_t rank = circle[at];
    text +=
        fmt::format("{}rank {} waits for its {} (call {}), which needs rank {}", at == 0 ? "" : "; ", rank,
                    replayed_text(made(rank, step_of(rank))), step_of(rank).call, held[rank].waits_for);
  }
  return fmt::format("a replay would never end: {}{}", text, circle.size() > k_most ? "; …" : "");
}

}  // namespace

Result<void> settle_waits(ReplayPlan& plan, bool late_waits) {
  if (const std::optional<std::string> problem = StepWalk(plan).walk(late_waits)) {
    return failure(*problem);
  }
  return {};
}

}  // namespace commlens::bench
