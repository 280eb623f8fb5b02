#include "commlens/summary/arrivals.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

void add(nanoseconds& sum, nanoseconds time) { sum = nanoseconds(saturating_sum(sum.count(), time.count())); }

/// The index of the last to arrive; of several, the first.
std::size_t last_of(const std::vector<Arrival>& arrivals) {
  std::size_t last = 0;
  for (std::size_t member = 1; member < arrivals.size(); ++member) {
    last = arrivals[member].arrived > arrivals[last].arrived ? member : last;
  }
  return last;
}

nanoseconds wait_of(const Arrival& arrival, nanoseconds last_arrival) {
  return std::min(arrival.ended, last_arrival) - arrival.arrived;
}

void count_last(Lateness& lateness, nanoseconds caused) {
  lateness.last += caused > nanoseconds(0) ? 1 : 0;
  add(lateness.caused, caused);
}

bool is_worse(const WaitInstance& a, const WaitInstance& b) {
  const auto rest = [](const WaitInstance& wait) {
    return std::tie(wait.iteration, wait.kind, wait.axis, wait.members, wait.index, wait.last_arrival,
                    wait.last);
  };
  return a.waited != b.waited ? a.waited > b.waited : rest(a) < rest(b);
}

}  // namespace

bool WorstWaits::has_room_for(nanoseconds waited) const {
  return most_ > 0 && waited > nanoseconds(0) && (heap_.size() < most_ || waited >= heap_.front().waited);
}

void WorstWaits::add(WaitInstance wait) {
  heap_.push_back(std::move(wait));
  std::push_heap(heap_.begin(), heap_.end(), is_worse);
  if (heap_.size() > most_) {
    std::pop_heap(heap_.begin(), heap_.end(), is_worse);
    heap_.pop_back();
  }
}

std::vector<WaitInstance> WorstWaits::take() {
  std::sort_heap(heap_.begin(), heap_.end(), is_worse);
  return std::move(heap_);
}

ArrivalChannel& ArrivalMatching::add(const CallRoute& route, std::vector<RankLateness*> ranks,
                                     std::vector<std::int64_t*> held) {
  ArrivalChannel& channel = channels_.emplace_back(ArrivalChannel{
      route.channel, route.members, std::move(ranks), Lanes<Arrival>(std::move(held)), {}, {}});
  const Axis axis = route.channel.group.axis;
  channel.collective.kind = route.channel.kind;
  channel.collective.axis = axis;
  channel.collective.group_size = std::ssize(route.members);
  channel.pair.source = route.members.front();
  channel.pair.destination = route.members.back();
  channel.pair.axis = axis;
  return channel;
}

void ArrivalMatching::match(ArrivalChannel& channel) {
  const bool is_pair = channel.key.kind == CommKind::send;
  channel.lanes.match([&](std::vector<Arrival>& arrivals, std::int64_t label, std::int64_t k) {
    is_pair ? add_message(channel, arrivals)
            : add_collective(channel, arrivals, iteration_of_label(label), k);
  });
}

void ArrivalMatching::add_collective(ArrivalChannel& channel, std::vector<Arrival>& arrivals,
                                     Iteration iteration, std::int64_t k) {
  CollectiveWait& sums = channel.collective;
  const std::size_t last = last_of(arrivals);
  const nanoseconds last_arrival = arrivals[last].arrived;
  nanoseconds all{};
  nanoseconds longest{};
  std::size_t longest_member = 0;
  for (std::size_t member = 0; member < arrivals.size(); ++member) {
    const Arrival& arrival = arrivals[member];
    const nanoseconds waited = wait_of(arrival, last_arrival);
    Lateness& own = channel.ranks[member]->collectives;
    ++own.instances;
    commlens::add(own.waited, waited);
    commlens::add(all, waited);
    commlens::add(sums.in_calls, arrival.ended - arrival.arrived);
    longest_member = waited > longest ? member : longest_member;
    longest = std::max(longest, waited);
  }
  count_last(channel.ranks[last]->collectives, all);
  ++sums.instances;
  commlens::add(sums.waited, all);
  sums.longest = std::max(sums.longest, longest);
  if (worst_.has_room_for(all)) {
    worst_.add({channel.key.kind, sums.axis, channel.members, iteration, k, channel.members[last],
                last_arrival, all, channel.members[longest_member], longest});
  }
}

void ArrivalMatching::add_message(ArrivalChannel& channel, const std::vector<Arrival>& arrivals) {
  PairWait& pair = channel.pair;
  const Arrival& sender = arrivals[0];
  const Arrival& receiver = arrivals[1];
  const std::size_t last = last_of(arrivals);
  const nanoseconds last_arrival = arrivals[last].arrived;
  const std::array waits = {wait_of(sender, last_arrival), wait_of(receiver, last_arrival)};
  ++pair.messages;
  pair.sender_first += sender.arrived < receiver.arrived ? 1 : 0;
  pair.receiver_first += receiver.arrived < sender.arrived ? 1 : 0;
  commlens::add(pair.sender_waited, waits[0]);
  commlens::add(pair.receiver_waited, waits[1]);
  for (std::size_t side = 0; side < 2; ++side) {
    ++channel.ranks[side]->messages.instances;
    commlens::add(channel.ranks[side]->messages.waited, waits[side]);
  }
  count_last(channel.ranks[last]->messages, waits[0] + waits[1]);
}

namespace {

void merge(CollectiveWait& into, const CollectiveWait& from) {
  into.instances += from.instances;
  into.incomplete += from.incomplete;
  add(into.waited, from.waited);
  add(into.in_calls, from.in_calls);
  into.longest = std::max(into.longest, from.longest);
}

void merge(PairWait& into, const PairWait& from) {
  into.messages += from.messages;
  into.incomplete += from.incomplete;
  into.sender_first += from.sender_first;
  into.receiver_first += from.receiver_first;
  add(into.sender_waited, from.sender_waited);
  add(into.receiver_waited, from.receiver_waited);
}

/// Adds `sums` to those of the same key.
template <typename Key, typename Sums>
void collect(std::map<Key, Sums>& rows, const Key& key, const Sums& sums) {
  const auto [found, is_new] = rows.try_emplace(key, sums);
  if (!is_new) {
    merge(found->second, sums);
  }
}

}  // namespace

void ArrivalMatching::finish(Stragglers& result) {
  std::map<std::tuple<CommKind, Axis, std::int64_t>, CollectiveWait> collectives;
  std::map<std::tuple<Rank, Rank, Axis>, PairWait> pairs;
  for (ArrivalChannel& channel : channels_) {
    const std::int64_t incomplete = channel.lanes.incomplete();
    result.incomplete += incomplete;
    result.too_far_apart += channel.lanes.lost();
    if (channel.key.kind == CommKind::send) {
      channel.pair.incomplete = incomplete;
      result.messages += channel.pair.messages;
      collect(pairs, {channel.pair.source, channel.pair.destination, channel.pair.axis}, channel.pair);
    } else {
      CollectiveWait& sums = channel.collective;
      sums.incomplete = incomplete;
      result.instances += sums.instances;
      collect(collectives, {sums.kind, sums.axis, sums.group_size}, sums);
    }
  }
  for (const auto& [key, sums] : collectives) {
    result.collectives.push_back(sums);
  }
  std::stable_sort(result.collectives.begin(), result.collectives.end(),
                   [](const CollectiveWait& a, const CollectiveWait& b) { return a.waited > b.waited; });
  for (const auto& [key, pair] : pairs) {
    result.pairs.push_back(pair);
  }
  result.worst = worst_.take();
}

}  // namespace commlens
