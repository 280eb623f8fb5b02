#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "commlens/formats/io/schedule.hpp"

namespace commlens::formats {

/// Carries out the calls of all ranks as a simulator would that lets each rank have one send or collective
/// at a time, in the order of their starts: receives are posted, sends end at once, a collective when all
/// members have come. Where that stops in a circle of ranks, one reason to wait in it is given up, and noted
/// in the schedule: first that a call after an overlapping collective waits for its turn; then, that a
/// message waits for a receive before it; last, any wait.
class ScheduleWalk {
 public:
  explicit ScheduleWalk(CallSchedule& schedule);
  void walk();

 private:
  using Kind = CallRole::Kind;
  struct Open {  // a receive or collective that a later call waits for
    std::uint32_t waited_at = 0;
    ScheduledCall call;
    friend bool operator>(const Open& a, const Open& b) {
      return std::tie(a.waited_at, a.call.position) > std::tie(b.waited_at, b.call.position);
    }
  };
  struct RankState {
    RankState(const CallSchedule& schedule, const RankStream& stream, Rank rank)
        : calls(schedule, stream, rank) {}
    ScheduledRank calls;
    ScheduledCall next;
    bool has_next = false;
    bool is_queued = false;
    bool may_pass = false;  // the next call, a collective under way
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    std::vector<ScheduledCall> under_way;                     // collectives, in order
    std::unordered_map<std::uint32_t, std::uint32_t> joined;  // collectives by series
  };
  enum class Reason : std::uint8_t { none, turn, receive, any };
  struct Block {
    Reason reason = Reason::none;
    std::int64_t waits_for = -1;  // a rank
  };

  RankState& state_of(std::int64_t rank);
  void run(std::int64_t rank);
  void queue(std::int64_t rank);
  bool waits_for_calls(RankState& state) const;
  static bool waits_for_turn(const RankState& state);
  void carry_out(std::int64_t rank);
  void join(std::int64_t rank, const ScheduledCall& call);
  void leave(Rank member, std::uint32_t instance);
  bool is_over(const ScheduledCall& call) const;
  std::uint32_t instance_of(const ScheduledCall& call) const;
  Block block_of(std::int64_t rank);
  std::int64_t first_absent(const ScheduledCall& collective);
  bool relax();
  void relax_circle(const std::vector<std::int64_t>& circle, const std::vector<Block>& blocks);
  void wait_later(std::int64_t rank);

  CallSchedule& schedule_;
  std::vector<std::optional<RankState>> ranks_;
  std::vector<std::int64_t> ready_;
  std::vector<std::uint32_t> sent_;    // by pair
  std::vector<std::uint32_t> joined_;  // members, by instance
};

}  // namespace commlens::formats
