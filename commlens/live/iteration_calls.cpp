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
  if (iterations_.size() <= k_most_iterations) {
    return begun;
  }
  iterations_.pop_front();
  return *std::find_if(iterations_.begin(), iterations_.end(),
                       [&](const OfIteration& known) { return known.iteration >= iteration; });
}

void IterationCalls::add(std::uint64_t slot, const CommEvent& event) {
  const bool is_late = iterations_.size() == k_most_iterations && event.iteration < iterations_[0].iteration;
  if (event.iteration < 0 || is_late) {
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
    iteration.calls.push_back({slot, event});
  }
}

IterationCalls::Call* IterationCalls::find(Iteration iteration, std::uint64_t slot) {
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration == iteration; });
  if (known == iterations_.end()) {
    return nullptr;
  }
  const auto call =
      std::lower_bound(known->calls.begin(), known->calls.end(), slot,
                       [](const Call& each, std::uint64_t wanted) { return each.slot < wanted; });
  return call == known->calls.end() || call->slot != slot ? nullptr : &*call;
}

void IterationCalls::replace(Iteration iteration, std::uint64_t slot, OpId op) {
  if (Call* const call = find(iteration, slot)) {
    call->event.op = op;
  }
}

void IterationCalls::withdraw(Iteration iteration, std::uint64_t slot) {
  if (Call* const call = find(iteration, slot)) {
    call->event.iteration = k_unknown_iteration;
  }
}

void IterationCalls::lose() {
  has_lost_ = true;
  if (!iterations_.empty()) {
    iterations_.back().is_whole = false;
  }
}

std::optional<std::vector<CommEvent>> IterationCalls::of(Iteration iteration) const {
  const auto known = std::find_if(iterations_.begin(), iterations_.end(),
                                  [&](const OfIteration& each) { return each.iteration >= iteration; });
  const bool is_gone =
      iterations_.size() == k_most_iterations && known == iterations_.begin() && known->iteration > iteration;
  if (is_gone || (known == iterations_.end() ? has_lost_ : !known->is_whole)) {
    return std::nullopt;
  }
  std::vector<CommEvent> events;
  if (known != iterations_.end() && known->iteration == iteration) {
    for (const Call& call : known->calls) {
      if (call.event.iteration == iteration) {
        events.push_back(call.event);
      }
    }
  }
  return events;
}

}  // namespace commlens
