#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The length of the union of intervals that are added one by one, mostly ascending by start. It holds the
/// last few united intervals; one before these cannot be added exactly.
class RunningUnion {
 public:
  void add(const Interval& interval) {
    if (interval.finished <= interval.started) {
      return;
    }
    if (!last_.empty() && interval.started <= last_.back().finished &&
        interval.started >= last_.back().started) {
      last_.back().finished = std::max(last_.back().finished, interval.finished);
    } else if (last_.empty() || interval.started > last_.back().finished) {
      append(interval);
    } else {
      insert(interval);
    }
  }

  /// The length of what was added since the last take(), and whether it is exact; starts anew.
  std::chrono::nanoseconds take();
  bool is_exact() const { return is_exact_; }

  /// How many separate intervals are held, never more than k_most.
  std::size_t size() const { return last_.size(); }
  static constexpr std::size_t k_most = 4096;

 private:
  void append(const Interval& interval) {
    if (last_.size() >= k_most) {
      retire(k_most / 2);
    }
    last_.push_back(interval);
  }
  void insert(Interval interval);
  void retire(std::size_t count);

  std::vector<Interval> last_;  // ascending, no two that touch
  std::int64_t retired_ns_ = 0;
  std::chrono::nanoseconds retired_until_ = std::chrono::nanoseconds::min();
  bool is_exact_ = true;
};

}  // namespace commlens
