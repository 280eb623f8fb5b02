#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "commlens/summary/call_routes.hpp"
#include "commlens/summary/lanes.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {

/// The times at which a member arrived at a call and left it.
struct Arrival {
  std::chrono::nanoseconds arrived{};
  std::chrono::nanoseconds ended{};
};

/// Matched calls, and the sums of their waits.
struct ArrivalChannel {
  ChannelKey key;
  std::vector<Rank> members;
  std::vector<RankLateness*> ranks;  // of the members; null: the trace has no times of the member
  Lanes<Arrival> lanes;
  CollectiveWait collective;  // for pairs
  PairWait pair;
};

/// The instances with the longest waits, as a heap with the shortest of them first.
class WorstWaits {
 public:
  explicit WorstWaits(std::size_t most) : most_(most) {}
  bool has_room_for(std::chrono::nanoseconds waited) const;
  void add(WaitInstance wait);
  /// The longest wait first.
  std::vector<WaitInstance> take();

 private:
  std::size_t most_;
  std::vector<WaitInstance> heap_;
};

/// Sums the waits between ranks, from their arrivals.
class ArrivalMatching {
 public:
  explicit ArrivalMatching(std::size_t worst) : worst_(worst) {}

  /// Adds a channel; `ranks` and `held` are of the members. Its address is stable.
  ArrivalChannel& add(const CallRoute& route, std::vector<RankLateness*> ranks,
                      std::vector<std::int64_t*> held);
  /// Sums the calls of a channel that all members have made.
  void match(ArrivalChannel& channel);

  std::deque<ArrivalChannel>& channels() { return channels_; }
  /// Fills in all members but the ranks and the skipped calls.
  void finish(Stragglers& result);

 private:
  void add_collective(ArrivalChannel& channel, std::vector<Arrival>& arrivals, Iteration iteration,
                      std::int64_t k);
  static void add_message(ArrivalChannel& channel, const std::vector<Arrival>& arrivals);

  std::deque<ArrivalChannel> channels_;
  WorstWaits worst_;
  std::vector<std::chrono::nanoseconds> waits_;  // of one instance
};

}  // namespace commlens
