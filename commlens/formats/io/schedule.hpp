#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/formats/io/schedule_order.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// The messages from one rank to another.
struct MessagePair {
  Rank source;
  Rank destination;
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  /// Which message each receive takes, both counted in order of their starts; empty where the first takes the
  /// first, and so on.
  std::vector<std::uint32_t> matched;
  /// Bytes of each message, where the two sides report different ones (pickled objects).
  std::vector<std::int64_t> sent_bytes;

  /// Bytes of message `number`, which the receiver has as `received` bytes.
  std::int64_t bytes(std::uint32_t number, std::int64_t received) const {
    return sent_bytes.empty() ? received : sent_bytes[number];
  }
};

/// A group as its members see it.
using GroupKey = std::pair<CommunicatorId, std::vector<Rank>>;

/// Collectives of a group of which the k-th of each member belong together.
struct CollectiveSeries {
  std::vector<Rank> members;
  std::uint32_t calls = 0;           // of each member
  std::uint32_t first_tag = 0;       // GOAL: of all calls, or of the first of them
  bool has_tag_per_call = false;     // calls of a rank overlap
  bool is_uneven = false;            // members put different amounts into an all_to_all
  std::uint32_t first_instance = 0;  // of the first call; the others follow
};

/// What calls of all members have in common. Those of a series with one signature for all have the first one.
struct CallSignature {
  CommKind kind = CommKind::other;
  std::int64_t bytes = 0;
  std::int64_t root = 0;
  friend auto operator<=>(const CallSignature&, const CallSignature&) = default;
};
CallSignature signature_of(const CommOp& op);

/// What a call is to a simulator, and the pair or series it belongs to.
struct CallRole {
  enum class Kind : std::uint8_t {
    nothing,  // of kind `other`, to oneself, alone in its group, or with ranks that the trace does not report
    send,
    receive,
    collective
  };
  Kind kind = Kind::nothing;
  std::uint32_t index = 0;
};

/// How the calls of a job are carried out by somebody who knows no time: which receive takes which message,
/// which calls of a rank wait for which, and in what order collectives that overlap others get their turn.
/// All of it follows from what has been recorded, where a call that starts after another has finished may
/// rest on it, and no other may. Since a message is not received before its send has started, and the k-th
/// receive of a size to be waited for takes the k-th message of that size, every wait points back in time: a
/// schedule made of a recording cannot stop, whatever the program's tags were.
///
/// Calls without times follow one another. Where that would never end (neighbours that both receive first,
/// as frameworks issue in one batch), receives are waited for later; `relaxed_waits` counts them.
class CallSchedule {
 public:
  /// `has_order`: of a prediction whose waits are known (StepOrder), so that calls may overlap though they
  /// have no times.
  explicit CallSchedule(const Trace& trace, bool has_order = false);

  /// Why the calls of the ranks do not belong together (a rank is missing, a receive has no send); then
  /// nothing is known of tags, and waits are those of the times alone.
  const std::optional<std::string>& mismatch() const { return mismatch_; }
  const Trace& trace() const { return trace_; }
  const CallOrder& order(const RankStream& stream) const {
    return orders_[static_cast<std::size_t>(&stream - trace_.streams.data())];
  }
  const std::vector<MessagePair>& pairs() const { return pairs_; }
  const std::vector<CollectiveSeries>& series() const { return series_; }
  std::uint32_t instances() const { return instances_; }

  CallRole role(OpId op, Rank rank) const;
  /// The position that waits for the call at `position` of the rank's order.
  std::uint32_t waited_at(const CallOrder& order, Rank rank, std::uint32_t position) const;
  /// Calls of the rank, by position, that a collective must let pass where a rank carries out one send or
  /// collective at a time; null where it need not.
  const std::vector<std::uint32_t>* let_pass(Rank rank, std::uint32_t position) const;
  bool has_overlaps() const { return !let_pass_.empty(); }
  std::int64_t relaxed_waits() const { return static_cast<std::int64_t>(later_waits_.size()); }

 private:
  friend class SchedulePlanner;
  friend class ScheduleWalk;
  using Place = std::pair<std::int64_t, std::uint32_t>;  // rank and position

  const Trace& trace_;
  bool has_order_;
  std::vector<CallOrder> orders_;  // by stream
  std::optional<std::string> mismatch_;
  std::vector<MessagePair> pairs_;
  std::map<std::pair<Rank, Rank>, std::uint32_t> pair_ids_;
  std::vector<CollectiveSeries> series_;
  /// The series of a group: one, or where the members call it in different orders, one per kind of call.
  std::map<GroupKey, std::map<CallSignature, std::uint32_t>> series_ids_;
  std::uint32_t instances_ = 0;
  std::map<Place, std::uint32_t> later_waits_;
  std::map<Place, std::vector<std::uint32_t>> let_pass_;
};

/// A call of a rank, and its number among those of its pair and direction, or of its series.
struct ScheduledCall {
  CallRole role;
  std::uint32_t row = 0;
  std::uint32_t position = 0;
  std::uint32_t waited_at = 0;
  std::uint32_t number = 0;  // of a receive: of the message it takes
  std::uint32_t tag = 0;     // which the simulator matches by
};

/// The calls of one rank in order.
class ScheduledRank {
 public:
  ScheduledRank(const CallSchedule& schedule, const RankStream& stream, Rank rank)
      : schedule_(schedule), stream_(stream), order_(schedule.order(stream)), rank_(rank) {}

  /// False after the last one.
  bool next(ScheduledCall& call);

 private:
  CallRole role(OpId op);

  const CallSchedule& schedule_;
  const RankStream& stream_;
  const CallOrder& order_;
  Rank rank_;
  std::uint32_t position_ = 0;
  std::unordered_map<std::uint32_t, CallRole> roles_;       // by op
  std::unordered_map<std::uint64_t, std::uint32_t> calls_;  // so far, by role
};

}  // namespace commlens::formats
