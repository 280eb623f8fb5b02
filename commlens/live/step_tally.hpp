#pragma once
#include <chrono>
#include <cstddef>
#include <deque>

#include "commlens/live/job_view.hpp"

namespace commlens {

/// The iterations of one rank that have ended: how many, and how long they and the last ones took.
class StepTally {
 public:
  void add(std::chrono::nanoseconds length);
  bool has_any() const { return steps_.completed > 0; }
  /// All but the highest iteration begun.
  LiveSteps steps() const;

 private:
  static constexpr std::size_t k_latest = 32;
  LiveSteps steps_;
  std::deque<std::chrono::nanoseconds> latest_;
};

}  // namespace commlens
