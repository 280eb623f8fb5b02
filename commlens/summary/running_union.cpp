#include "commlens/summary/running_union.hpp"

#include <utility>

namespace commlens {

using std::chrono::nanoseconds;

nanoseconds RunningUnion::take() {
  if (last_.size() == 1 && retired_ns_ == 0) {
    const Interval only = last_.front();
    last_.clear();
    retired_until_ = nanoseconds::min();
    return only.finished - only.started;
  }
  retire(last_.size());
  retired_until_ = nanoseconds::min();
  return nanoseconds(std::exchange(retired_ns_, 0));
}

void RunningUnion::insert(Interval interval) {
  is_exact_ &= interval.started >= retired_until_;
  // Those that overlap or touch it are one after the other.
  const auto first = std::partition_point(
      last_.begin(), last_.end(), [&](const Interval& other) { return other.finished < interval.started; });
  auto end = first;
  for (; end != last_.end() && end->started <= interval.finished; ++end) {
    interval.started = std::min(interval.started, end->started);
    interval.finished = std::max(interval.finished, end->finished);
  }
  if (first == end) {
    last_.insert(first, interval);
    if (last_.size() > k_most) {
      retire(k_most / 2);
    }
    return;
  }
  *first = interval;
  last_.erase(first + 1, end);
}

void RunningUnion::retire(std::size_t count) {
  for (std::size_t at = 0; at < count; ++at) {
    retired_ns_ = saturating_sum(retired_ns_, (last_[at].finished - last_[at].started).count());
    retired_until_ = last_[at].finished;
  }
  last_.erase(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace commlens
