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

/// When a member came to a call and left it.
struct Arrival {
  std::chrono::nanoseconds arrived{};
  std::chrono::nanoseconds ended{};
};

/// The calls that are matched with each other, and what the waits in them came to.
struct ArrivalChannel {
  ChannelKey key;
  std::vector<Rank> members;
  std::vector<RankLateness*> ranks;  // of the members; null: the trace has no times of it
  Lanes<Arrival> lanes;
  CollectiveWait collective;  // or, of a pair …
  PairWait pair;
};

/// The instances with the longest waits, as a heap whose first is the least of them.
class WorstWaits {
 public:
  explicit WorstWaits(std::size_t most) : most_(most) {}
  bool has_room_for(std::chrono::nanoseconds waited) const;
  void add(WaitInstance wait);
  /// Most waited first.
  std::vector<WaitInstance> take();

 private:
  std::size_t most_;
  std::vector<WaitInstance> heap_;
};

/// Adds up who waited for whom, by when each came.
class ArrivalMatching {
 public:
  explicit ArrivalMatching(std::size_t worst) : worst_(worst) {}

  /// A new channel; `ranks` and `held` are of the members. Stays where it is.
  ArrivalChannel& add(const CallRoute& route, std::vector<RankLateness*> ranks,
                      std::vector<std::int64_t*> held);
  /// Sums up the calls of a channel that all members have made.
  void match(ArrivalChannel& channel);

  std::deque<ArrivalChannel>& channels() { return channels_; }
  /// Fills in all but the ranks and what was skipped.
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
