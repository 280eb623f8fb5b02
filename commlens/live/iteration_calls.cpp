#include "commlens/live/iteration_calls.hpp"

#include <algorithm>

namespace commlens {

/// The iteration, which is a new one or was begun before: threads of a rank may be an iteration apart.
IterationCalls::OfIteration& IterationCalls::begin(Iteration iteration) {
  const auto place =
      std::lower_bound(iterations_.begin(), iterations_.end(), iteration,
                       [](const OfIteration& known, Iteration wanted) { return known.iteration < wanted; });
  if (place != iterations_.end() && place->iteration == iteration) {
    return *place;
  }
  OfIteration& begun = *iterations_.insert(place, {.iteration = iteration, .calls = {}});
  if (iterations_.size() > k_most_iterations) {  // an older one than `begun`: add() asks that first
    iterations_.pop_front();
  }
  return begun;
}

void IterationCalls::add(std::uint64_t slot, const CommEvent& event, const std::optional<Times>& times) {
  if (event.iteration < 0) {
    outside_.push_back({slot, event, times});
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
  iteration.is_whole = iteration.is_whole && !has_lost_;
  has_lost_ = false;
  if (iteration.calls.size() == k_most_calls) {
    iteration.is_whole = false;
  }
  if (iteration.is_whole) {
    iteration.calls.push_back({slot, event, times});
  }
}

template <typename Calls, typename Use>
void IterationCalls::use(Calls& calls, std::uint64_t slot, const Use& use_it) {
  const auto call =
      std::lower_bound(calls.begin(), calls.end(), slot,
                       [](const Call& each, std::uint64_t wanted) { return each.slot < wanted; });
  if (call != calls.end() && call->slot == slot) {
    use_it(calls, call);
  }
}

template <typename Use>
void IterationCalls::find(Iteration iteration, std::uint64_t slot, const Use& use_it) {
  if (iteration < 0) {
    return use(outside_, slot, use_it);
  }
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration == iteration; });
  if (known != iterations_.end()) {
    use(known->calls, slot, use_it);
  }
}

void IterationCalls::finish(Iteration iteration, std::uint64_t slot, OpId op,
                            const std::optional<Times>& times) {
  find(iteration, slot, [&](auto& /*calls*/, auto call) {
    call->event.op = op;
    call->times = times;
  });
}

void IterationCalls::withdraw(Iteration iteration, std::uint64_t slot) {
  find(iteration, slot, [](auto& calls, auto call) { calls.erase(call); });
}

void IterationCalls::lose() {
  has_lost_ = true;
  outside_.clear();
  if (!iterations_.empty()) {
    iterations_.back().is_whole = false;
  }
}

std::optional<TimedCalls> IterationCalls::of(Iteration iteration) const {
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration >= iteration; });
  const bool is_gone =
      iterations_.size() == k_most_iterations && known == iterations_.begin() && known->iteration > iteration;
  if (is_gone || (known == iterations_.end() ? has_lost_ : !known->is_whole)) {
    return std::nullopt;
  }
  TimedCalls found;
  if (known != iterations_.end() && known->iteration == iteration) {
    for (const Call& call : known->calls) {
      found.events.push_back(call.event);
      if (call.times) {
        found.times.push_back(*call.times);
      }
    }
  }
  if (found.times.size() < found.events.size()) {
    found.times.clear();
  }
  return found;
}

std::vector<CommEvent> IterationCalls::outside() const {
  std::vector<CommEvent> events;
  for (const Call& call : outside_) {
    events.push_back(call.event);
  }
  return events;
}

}  // namespace commlens
