#include "commlens/live/latest_iterations.hpp"

#include <algorithm>
#include <utility>

namespace commlens {
namespace {

/// Of calls in the order of their slots.
template <typename Calls>
auto call_at(Calls& calls, std::uint64_t slot) {
  const auto place =
      std::lower_bound(calls.begin(), calls.end(), slot,
                       [](const auto& each, std::uint64_t wanted) { return each.slot < wanted; });
  return place != calls.end() && place->slot == slot ? place : calls.end();
}

}  // namespace

void LatestIterations::OfIteration::drop() {
  is_whole = false;
  calls = {};
  times = {};
}

/// The iteration, which is a new one or was begun before: threads of a rank may be an iteration apart.
LatestIterations::OfIteration& LatestIterations::begin(Iteration iteration) {
  const auto place =
      std::lower_bound(iterations_.begin(), iterations_.end(), iteration,
                       [](const OfIteration& known, Iteration wanted) { return known.iteration < wanted; });
  if (place != iterations_.end() && place->iteration == iteration) {
    return *place;
  }
  OfIteration& begun = *iterations_.insert(place, {.iteration = iteration, .calls = {}, .times = {}});
  if (iterations_.size() > k_most_iterations) {  // an older one than `begun`: add() asks that first
    iterations_.pop_front();
  }
  return begun;
}

LatestIterations::OfIteration* LatestIterations::find(Iteration iteration) {
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration == iteration; });
  return known == iterations_.end() ? nullptr : &*known;
}

void LatestIterations::add(std::uint64_t slot, const CommEvent& event, const std::optional<Times>& times) {
  const Call call{slot, event.op, event.micro_batch};
  if (event.iteration < 0) {
    outside_.push_back(call);
    if (outside_.size() > k_most_outside) {
      outside_.pop_front();
    }
    return;
  }
  outside_.clear();
  if (iterations_.size() == k_most_iterations && event.iteration < iterations_[0].iteration) {
    return;
  }
  const bool is_latest = !iterations_.empty() && iterations_.back().iteration == event.iteration;
  OfIteration& iteration = is_latest ? iterations_.back() : begin(event.iteration);
  if (std::exchange(has_lost_, false) || iteration.calls.size() == k_most_calls) {
    iteration.drop();
  }
  if (iteration.is_whole) {
    iteration.calls.push_back(call);
    if (keeps_times_) {
      iteration.times.push_back(times);
    }
  }
}

void LatestIterations::finish(Iteration iteration, std::uint64_t slot, OpId op,
                              const std::optional<Times>& times) {
  if (iteration < 0) {
    if (const auto call = call_at(outside_, slot); call != outside_.end()) {
      call->op = op;
    }
    return;
  }
  OfIteration* const known = find(iteration);
  if (known == nullptr) {
    return;
  }
  const auto call = call_at(known->calls, slot);
  if (call == known->calls.end()) {
    return;
  }
  call->op = op;
  if (keeps_times_) {
    known->times[static_cast<std::size_t>(call - known->calls.begin())] = times;
  }
}

void LatestIterations::withdraw(Iteration iteration, std::uint64_t slot) {
  if (iteration < 0) {
    if (const auto call = call_at(outside_, slot); call != outside_.end()) {
      outside_.erase(call);
    }
    return;
  }
  OfIteration* const known = find(iteration);
  if (known == nullptr) {
    return;
  }
  const auto call = call_at(known->calls, slot);
  if (call == known->calls.end()) {
    return;
  }
  if (keeps_times_) {
    known->times.erase(known->times.begin() + (call - known->calls.begin()));
  }
  known->calls.erase(call);
}

void LatestIterations::lose() {
  lose_from(iterations_.empty() ? k_unknown_iteration : iterations_.back().iteration);
}

void LatestIterations::lose_from(Iteration iteration) {
  for (OfIteration& each : iterations_) {
    if (each.iteration >= iteration) {
      each.drop();
    }
  }
  has_lost_ = true;
  outside_.clear();
}

std::optional<TimedCalls> LatestIterations::of(Iteration iteration) const {
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration >= iteration; });
  const bool is_gone =
      iterations_.size() == k_most_iterations && known == iterations_.begin() && known->iteration > iteration;
  if (is_gone || (known == iterations_.end() ? has_lost_ : !known->is_whole)) {
    return std::nullopt;
  }
  TimedCalls found;
  if (known == iterations_.end() || known->iteration != iteration) {
    return found;
  }
  for (const Call& call : known->calls) {
    found.events.push_back({call.op, iteration, call.micro_batch});
  }
  for (const std::optional<Times>& times : known->times) {
    if (!times) {
      found.times.clear();
      break;
    }
    found.times.push_back(*times);
  }
  return found;
}

std::vector<CommEvent> LatestIterations::outside() const {
  std::vector<CommEvent> events;
  for (const Call& call : outside_) {
    events.push_back({call.op, k_unknown_iteration, call.micro_batch});
  }
  return events;
}

}  // namespace commlens
