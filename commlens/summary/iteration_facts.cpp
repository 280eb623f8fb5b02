#include "commlens/summary/iteration_facts.hpp"

#include <algorithm>

namespace commlens {
namespace {

constexpr std::int64_t k_after_all = std::int64_t{INT32_MAX} + 1;

}  // namespace

void IterationSurvey::add(const CallBlock& block) {
  if (stream_ != block.stream) {
    stream_ = block.stream;
    latest_.reset();
    follows_unknown_ = false;
  }
  for (const CommEvent& event : block.events) {
    if (latest_ != event.iteration) {
      enter(event.iteration);
    }
  }
  for (const Times& times : block.times) {
    facts_.first_issued = std::min(facts_.first_issued, times.issued);
    facts_.last_finished = std::max(facts_.last_finished, times.finished);
  }
}

void IterationSurvey::enter(Iteration iteration) {
  facts_.has_training |= iteration >= 0;
  if (iteration == k_unknown_iteration) {
    follows_unknown_ = latest_.has_value();
    has_unknown_last_ |= follows_unknown_;
  } else if (latest_ == k_unknown_iteration) {
    ascends_ &= !follows_unknown_;
    has_unknown_first_ = true;
  } else {
    ascends_ &= !latest_ || iteration > *latest_;
  }
  latest_ = iteration;
}

IterationFacts IterationSurvey::facts() const {
  IterationFacts facts = facts_;
  if (!ascends_ || (has_unknown_first_ && has_unknown_last_)) {
    facts.order = IterationFacts::Order::any;
  } else {
    facts.order =
        has_unknown_last_ ? IterationFacts::Order::unknown_last : IterationFacts::Order::unknown_first;
  }
  return facts;
}

std::int64_t label_of(Iteration iteration, IterationFacts::Order order) {
  return iteration == k_unknown_iteration && order == IterationFacts::Order::unknown_last ? k_after_all
                                                                                          : iteration;
}

Iteration iteration_of_label(std::int64_t label) {
  return label == k_after_all ? k_unknown_iteration : static_cast<Iteration>(label);
}

}  // namespace commlens
