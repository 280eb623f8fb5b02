#include "commlens/summary/stragglers.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/summary/call_channels.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

void add(nanoseconds& sum, nanoseconds time) { sum = nanoseconds(saturating_sum(sum.count(), time.count())); }

/// One member in an instance.
struct Arrival {
  nanoseconds arrived{};
  nanoseconds ended{};
  nanoseconds waited{};
};

/// Fills in who waited how long; the place of the last to arrive, the first of several.
std::size_t fill_waits(std::vector<Arrival>& arrivals) {
  std::size_t last = 0;
  for (std::size_t member = 1; member < arrivals.size(); ++member) {
    last = arrivals[member].arrived > arrivals[last].arrived ? member : last;
  }
  for (Arrival& arrival : arrivals) {
    arrival.waited = std::min(arrival.ended, arrivals[last].arrived) - arrival.arrived;
  }
  return last;
}

/// Walks the lanes of one channel iteration by iteration and calls `visit` for the k-th calls of all lanes.
class LaneWalk {
 public:
  explicit LaneWalk(std::vector<ChannelLane> lanes)
      : lanes_(std::move(lanes)), at_(lanes_.size()), runs_(lanes_.size()), arrivals_(lanes_.size()) {}

  const std::vector<ChannelLane>& lanes() const { return lanes_; }

  /// Calls visit(arrivals, iteration, k) for each instance; the number of incomplete ones.
  template <typename Visit>
  std::int64_t walk(const Visit& visit) {
    std::int64_t incomplete = 0;
    while (const std::optional<Iteration> iteration = next_iteration()) {
      const auto [fewest, most] = count_runs(*iteration);
      for (std::size_t k = 0; k < fewest; ++k) {
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
          arrivals_[lane] = arrival(lanes_[lane], at_[lane] + k);
        }
        visit(arrivals_, *iteration, static_cast<std::int64_t>(k));
      }
      incomplete += static_cast<std::int64_t>(most - fewest);
      for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
        at_[lane] += runs_[lane];
      }
    }
    return incomplete;
  }

 private:
  Iteration iteration_at(std::size_t lane, std::size_t place) const {
    return lanes_[lane].stream->events[lanes_[lane].rows[place]].iteration;
  }

  std::optional<Iteration> next_iteration() const {
    std::optional<Iteration> next;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (at_[lane] < lanes_[lane].rows.size()) {
        const Iteration iteration = iteration_at(lane, at_[lane]);
        next = next ? std::min(*next, iteration) : iteration;
      }
    }
    return next;
  }

  /// How many calls each lane has in the iteration; the fewest and the most.
  std::pair<std::size_t, std::size_t> count_runs(Iteration iteration) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::size_t end = at_[lane];
      while (end < lanes_[lane].rows.size() && iteration_at(lane, end) == iteration) {
        ++end;
      }
      runs_[lane] = end - at_[lane];
    }
    const auto [fewest, most] = std::minmax_element(runs_.begin(), runs_.end());
    return {*fewest, *most};
  }

  static Arrival arrival(const ChannelLane& lane, std::size_t place) {
    const Times& times = lane.stream->times[lane.rows[place]];
    const nanoseconds arrived = held(times.issued);
    return {arrived, std::max(arrived, held(times.finished)), {}};
  }

  std::vector<ChannelLane> lanes_;
  std::vector<std::size_t> at_;    // per lane: calls that are behind us
  std::vector<std::size_t> runs_;  // per lane: calls of the iteration at hand
  std::vector<Arrival> arrivals_;
};

bool is_worse(const WaitInstance& a, const WaitInstance& b) {
  const auto rest = [](const WaitInstance& wait) {
    return std::tie(wait.iteration, wait.kind, wait.axis, wait.members, wait.index);
  };
  return a.waited != b.waited ? a.waited > b.waited : rest(a) < rest(b);
}

/// The instances with the longest waits, as a heap whose first is the least of them.
class Worst {
 public:
  explicit Worst(std::size_t most) : most_(most) {}

  bool has_room_for(nanoseconds waited) const {
    return most_ > 0 && waited > nanoseconds(0) && (heap_.size() < most_ || waited >= heap_.front().waited);
  }
  void add(WaitInstance instance) {
    heap_.push_back(std::move(instance));
    std::push_heap(heap_.begin(), heap_.end(), is_worse);
    if (heap_.size() > most_) {
      std::pop_heap(heap_.begin(), heap_.end(), is_worse);
      heap_.pop_back();
    }
  }
  std::vector<WaitInstance> take() {
    std::sort(heap_.begin(), heap_.end(), is_worse);
    return std::move(heap_);
  }

 private:
  std::size_t most_;
  std::vector<WaitInstance> heap_;
};

class Matching {
 public:
  Matching(const Trace& trace, const StragglerOptions& options)
      : channels_(trace, options.iterations), worst_(options.worst) {
    for (const RankStream& stream : trace.streams) {
      for (Rank rank = stream.ranks.first; !stream.times.empty() && rank <= stream.ranks.last; ++rank.value) {
        ranks_.emplace(rank, RankLateness{.rank = rank});
      }
    }
  }

  Stragglers run() {
    for (std::size_t index = 0; index < channels_.count(); ++index) {
      LaneWalk walk(channels_.lanes(index));
      const Channel& channel = channels_.channel(index);
      channel.is_pair() ? match_messages(channel, walk) : match_collectives(channel, walk);
    }
    for (auto& [rank, lateness] : ranks_) {
      result_.ranks.push_back(lateness);
    }
    collect_waits();
    result_.worst = worst_.take();
    result_.without_group = channels_.left_out().without_group;
    result_.unclassified = channels_.left_out().unclassified;
    result_.without_times = channels_.left_out().without_times;
    return std::move(result_);
  }

 private:
  using WaitKey = std::tuple<CommKind, Axis, std::size_t>;

  /// The lateness of the ranks of the lanes; null for ranks that the trace does not hold.
  std::vector<RankLateness*> lateness_of(const std::vector<ChannelLane>& lanes) {
    std::vector<RankLateness*> result;
    for (const ChannelLane& lane : lanes) {
      const auto found = ranks_.find(lane.rank);
      result.push_back(found == ranks_.end() ? nullptr : &found->second);
    }
    return result;
  }

  void match_collectives(const Channel& channel, LaneWalk& walk) {
    const std::vector<RankLateness*> ranks = lateness_of(walk.lanes());
    CollectiveWait& sums = collectives_[{channel.kind, channel.axis, channel.members.size()}];
    const std::int64_t incomplete =
        walk.walk([&](std::vector<Arrival>& arrivals, Iteration iteration, std::int64_t k) {
          const std::size_t last = fill_waits(arrivals);
          nanoseconds waited{};
          std::size_t longest = 0;
          for (std::size_t member = 0; member < arrivals.size(); ++member) {
            const Arrival& arrival = arrivals[member];
            Lateness& own = ranks[member]->collectives;
            ++own.instances;
            add(own.waited, arrival.waited);
            add(waited, arrival.waited);
            add(sums.in_calls, arrival.ended - arrival.arrived);
            longest = arrival.waited > arrivals[longest].waited ? member : longest;
          }
          count_last(ranks[last]->collectives, waited);
          ++sums.instances;
          add(sums.waited, waited);
          sums.longest = std::max(sums.longest, arrivals[longest].waited);
          if (worst_.has_room_for(waited)) {
            worst_.add({channel.kind, channel.axis, channel.members, iteration, k, channel.members[last],
                        arrivals[last].arrived, waited, channel.members[longest], arrivals[longest].waited});
          }
        });
    sums.incomplete += incomplete;
    result_.incomplete += incomplete;
  }

  void match_messages(const Channel& channel, LaneWalk& walk) {
    const std::vector<RankLateness*> ranks = lateness_of(walk.lanes());
    PairWait pair{.source = channel.members[0], .destination = channel.members[1], .axis = channel.axis};
    pair.incomplete =
        walk.walk([&](std::vector<Arrival>& arrivals, Iteration /*iteration*/, std::int64_t /*k*/) {
          const std::size_t last = fill_waits(arrivals);
          const Arrival& sender = arrivals[0];
          const Arrival& receiver = arrivals[1];
          ++pair.messages;
          pair.sender_first += sender.arrived < receiver.arrived ? 1 : 0;
          pair.receiver_first += receiver.arrived < sender.arrived ? 1 : 0;
          add(pair.sender_waited, sender.waited);
          add(pair.receiver_waited, receiver.waited);
          for (std::size_t side = 0; side < 2; ++side) {
            ++ranks[side]->messages.instances;
            add(ranks[side]->messages.waited, arrivals[side].waited);
          }
          count_last(ranks[last]->messages, sender.waited + receiver.waited);
        });
    result_.messages += pair.messages;
    result_.incomplete += pair.incomplete;
    result_.pairs.push_back(pair);
  }

  static void count_last(Lateness& lateness, nanoseconds caused) {
    lateness.last += caused > nanoseconds(0) ? 1 : 0;
    add(lateness.caused, caused);
  }

  void collect_waits() {
    for (auto& [key, sums] : collectives_) {
      sums.kind = std::get<0>(key);
      sums.axis = std::get<1>(key);
      sums.group_size = static_cast<std::int64_t>(std::get<2>(key));
      result_.instances += sums.instances;
      result_.collectives.push_back(sums);
    }
    std::stable_sort(result_.collectives.begin(), result_.collectives.end(),
                     [](const CollectiveWait& a, const CollectiveWait& b) { return a.waited > b.waited; });
    std::sort(result_.pairs.begin(), result_.pairs.end(), [](const PairWait& a, const PairWait& b) {
      return std::tie(a.source, a.destination, a.axis) < std::tie(b.source, b.destination, b.axis);
    });
  }

  CallChannels channels_;
  Worst worst_;
  std::map<Rank, RankLateness> ranks_;
  std::map<WaitKey, CollectiveWait> collectives_;
  Stragglers result_;
};

std::optional<nanoseconds> clock_error(const Trace& trace) {
  if (!trace.provenance.recorder) {
    return std::nullopt;
  }
  nanoseconds first = k_furthest_time;
  nanoseconds last = -k_furthest_time;
  for (const RankStream& stream : trace.streams) {
    for (const Times& times : stream.times) {
      first = std::min(first, held(times.issued));
      last = std::max(last, held(times.finished));
    }
  }
  if (first > last) {
    return std::nullopt;
  }
  constexpr double billion = 1e9;
  const auto ppb = static_cast<double>(trace.provenance.recorder->clock_error_ppb);
  const double error = 2 * ppb * static_cast<double>((last - first).count()) / billion;
  return held(nanoseconds(static_cast<std::int64_t>(std::min(error, 2e18))));
}

}  // namespace

nanoseconds Lateness::mean_caused() const { return last > 0 ? caused / last : nanoseconds(0); }

Stragglers stragglers(const Trace& trace, const StragglerOptions& options) {
  Stragglers result = Matching(trace, options).run();
  result.clock_error = clock_error(trace);
  return result;
}

}  // namespace commlens
