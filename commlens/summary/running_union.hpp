#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The length of the union of intervals that come one by one, mostly ascending by start. It holds the last
/// few of what is united; one that lies before these cannot be added exactly.
class RunningUnion {
 public:
  void add(const Interval& stretch) {
    if (stretch.finished <= stretch.started) {
      return;
    }
    if (!last_.empty() && stretch.started <= last_.back().finished &&
        stretch.started >= last_.back().started) {
      last_.back().finished = std::max(last_.back().finished, stretch.finished);
    } else if (last_.empty() || stretch.started > last_.back().finished) {
      append(stretch);
    } else {
      insert(stretch);
    }
  }

  /// The length of what was added since the last take(), and whether it is exact; starts anew.
  std::chrono::nanoseconds take();
  bool is_exact() const { return is_exact_; }

  /// How many separate intervals are held, never more than k_most.
  std::size_t size() const { return last_.size(); }
  static constexpr std::size_t k_most = 4096;

 private:
  void append(const Interval& stretch) {
    if (last_.size() >= k_most) {
      retire(k_most / 2);
    }
    last_.push_back(stretch);
  }
  void insert(Interval stretch);
  void retire(std::size_t count);

  std::vector<Interval> last_;  // ascending, no two that touch
  std::int64_t retired_ns_ = 0;
  std::chrono::nanoseconds retired_until_ = std::chrono::nanoseconds::min();
  bool is_exact_ = true;
};

}  // namespace commlens
