#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "commlens/live/job_progress.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The calls of one rank by their numbers, kept while they are made. Differs from ProgressBuilder in what it
/// remembers: of each communicator the last k_remembered calls, not all.
class LiveNumbers {
 public:
  static constexpr std::size_t k_remembered = 64;

  /// The calls of the rank on one channel.
  struct Lane {
    std::size_t channel = k_no_channel;
    std::int64_t entered = 0;
    std::vector<std::uint32_t> signatures;  // of number n at n modulo k_remembered; of collectives alone
  };
  /// What all calls of an op have in common.
  struct Place {
    CallPart part = CallPart::other;
    Lane* lane = nullptr;         // null: no other rank numbers it
    std::uint32_t signature = 0;  // of a collective: row of LiveProgress' signatures, + 1
    bool is_blocking = false;
  };
  /// A call under way.
  struct Open {
    std::uint64_t slot = 0;  // in issue order
    StatedCall call;
    Place place;
    std::int64_t number = 0;
    std::chrono::nanoseconds seen{};                    // by the follower's stopwatch
    std::optional<std::chrono::nanoseconds> row_since;  // it is over, and waits for its row in the tables
  };

  /// Enters a call that is later than all before; returns its number, 0: it has none.
  std::int64_t enter(const Place& place);
  /// The last call of a place that the rank has entered has this number: those between were not seen.
  void set_entered(const Place& place, std::int64_t number);
  /// A call that was entered turned out to be none: later ones of its channel have a number less.
  void withdraw(const Open& call);
  /// A call under way turned out to be another one, as a receive from any source does when it ends.
  void replace(Open& call, OpId op, const Place& place);

  /// A call that is over.
  void set_last(std::uint64_t slot, const StatedCall& call, const Place& place, std::int64_t number);

  std::vector<Open>& open() { return open_; }
  const std::vector<Open>& open() const { return open_; }
  std::int64_t calls() const { return calls_; }

 private:
  friend class LiveProgress;
  std::int64_t calls_ = 0;  // entered
  std::unordered_map<std::size_t, Lane> lanes_;
  std::vector<Open> open_;    // in issue order
  std::optional<Open> last_;  // the last one that is over, in issue order
};

/// Numbers the calls of all ranks while they are made, and says at any time how far the ranks are.
class LiveProgress {
 public:
  /// `tables` are those of all ranks, and outlive it.
  explicit LiveProgress(const Trace& tables) : tables_(tables) {}

  LiveNumbers::Place place_of(LiveNumbers& numbers, Rank rank, OpId op);

  /// The progress of ranks whose states are given, ascending; `numbers` of each, null: nothing is recorded.
  JobProgress progress(const std::vector<RankState>& states,
                       const std::vector<const LiveNumbers*>& numbers) const;

 private:
  using Numbers = std::vector<const LiveNumbers*>;
  std::size_t channel_id(CallChannel channel);
  std::uint32_t signature_id(const CallSignature& signature);
  SeenCall seen(Rank rank, const LiveNumbers::Open& call) const;
  std::vector<CallDifference> differences(const JobProgress& job, const Numbers& numbers) const;

  const Trace& tables_;
  std::vector<CallChannel> channels_;
  std::map<CallChannel, std::size_t> channel_ids_;
  std::deque<CallSignature> signatures_;
  std::map<CallSignature, std::uint32_t> signature_ids_;
};

}  // namespace commlens
