#include "commlens/live/step_tally.hpp"

#include <algorithm>
#include <vector>

namespace commlens {

void StepTally::add(std::chrono::nanoseconds length) {
  ++steps_.completed;
  steps_.last = length;
  steps_.durations.add(length);
  latest_.push_back(length);
  if (latest_.size() > k_latest) {
    latest_.pop_front();
  }
}

LiveSteps StepTally::steps() const {
  LiveSteps steps = steps_;
  if (!latest_.empty()) {
    std::vector<std::chrono::nanoseconds> lengths(latest_.begin(), latest_.end());
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    steps.median = *middle;
  }
  return steps;
}

}  // namespace commlens
