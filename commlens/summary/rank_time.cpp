#include "commlens/summary/rank_time.hpp"

#include <algorithm>

namespace commlens {

void RankTime::open(std::int64_t end_ns, std::uint32_t tag, std::int64_t label) {
  open_.push_back({end_ns, label, tag});
  if (open_.size() > 1) {
    std::push_heap(open_.begin(), open_.end(), std::greater<>());
  }
}

RankTime::Open RankTime::take_first() {
  if (open_.size() > 1) {
    std::pop_heap(open_.begin(), open_.end(), std::greater<>());
  }
  const Open first = open_.back();
  open_.pop_back();
  return first;
}

void RankTime::pass(std::int64_t end_ns) {
  if (end_ns <= totals_.at_ns) {
    return;  // it ended before a later call had started
  }
  const std::int64_t own = current_interval() == nullptr ? 0 : computed(totals_.at_ns, end_ns);
  totals_.between_ns += own;
  totals_.in_calls_ns += end_ns - totals_.at_ns - own;
  totals_.at_ns = end_ns;
}

/// The current compute interval, or null after the last one.
const ComputeInterval* RankTime::current_interval() {
  if (next_compute_ == compute_.size() && more_compute_) {
    compute_ = more_compute_();
    next_compute_ = 0;
    if (compute_.empty()) {
      more_compute_ = {};
    }
  }
  return next_compute_ < compute_.size() ? &compute_[next_compute_] : nullptr;
}

/// The computing time of the rank in a piece of time; pieces ascend, intervals may overlap.
std::int64_t RankTime::computed(std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t sum = 0;
  computed_until_ns_ = std::max(computed_until_ns_, begin_ns);
  for (const ComputeInterval* next = current_interval(); next != nullptr; next = current_interval()) {
    const std::int64_t started = held(next->started).count();
    const std::int64_t finished = held(next->finished).count();
    if (started < end_ns) {
      const std::int64_t last = std::min(finished, end_ns);
      sum += std::max<std::int64_t>(last - std::max(started, computed_until_ns_), 0);
      computed_until_ns_ = std::max(computed_until_ns_, last);
    }
    if (started >= end_ns || finished > end_ns) {
      break;
    }
    ++next_compute_;
  }
  return sum;
}

}  // namespace commlens
