#include "commlens/bench/replay_steps.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace commlens::bench {
namespace {

using std::chrono::nanoseconds;

/// When a rank computed: disjoint intervals, ascending.
class BusyTimes {
 public:
  explicit BusyTimes(std::span<const ComputeInterval> compute) {
    for (const ComputeInterval& interval : compute) {
      if (interval.finished <= interval.started) {
        continue;
      }
      if (!busy_.empty() && interval.started <= busy_.back().finished) {
        busy_.back().finished = std::max(busy_.back().finished, interval.finished);
      } else {
        busy_.push_back({interval.started, interval.finished});
      }
    }
  }

  bool is_busy_at(nanoseconds time) const {
    const auto after = first_ending_after(time);
    return after != busy_.end() && after->started < time;
  }

  nanoseconds between(nanoseconds from, nanoseconds to) const {
    nanoseconds sum{};
    for (auto at = first_ending_after(from); at != busy_.end() && at->started < to; ++at) {
      sum += std::min(at->finished, to) - std::max(at->started, from);
    }
    return sum;
  }

 private:
  std::vector<Interval>::const_iterator first_ending_after(nanoseconds time) const {
    return std::partition_point(busy_.begin(), busy_.end(),
                                [&](const Interval& interval) { return interval.finished <= time; });
  }

  std::vector<Interval> busy_;
};

class ReplayStepWriter {
 public:
  ReplayStepWriter(std::span<const Times> times, std::span<const ComputeInterval> compute, nanoseconds begin)
      : times_(times), busy_(compute), last_(begin) {}

  std::vector<ReplayStep> steps() {
    for (std::uint32_t call = 0; call < times_.size(); ++call) {
      issue(call);
    }
    while (!open_.empty()) {
      wait(open_.top());
      open_.pop();
    }
    return std::move(steps_);
  }

 private:
  using Open = std::pair<nanoseconds, std::uint32_t>;  // the end of a call under way

  void issue(std::uint32_t call) {
    const nanoseconds issued = times_[call].issued;
    std::vector<std::uint32_t> unnoticed;
    for (; !open_.empty() && open_.top().first <= issued; open_.pop()) {
      if (busy_.is_busy_at(open_.top().first)) {
        unnoticed.push_back(open_.top().second);
      } else {
        wait(open_.top());
      }
    }
    nanoseconds busy = std::max(issued - last_, nanoseconds(0));
    for (const std::uint32_t other : unnoticed) {
      steps_.push_back({ReplayStep::Kind::wait, other, std::exchange(busy, nanoseconds(0))});
    }
    steps_.push_back({ReplayStep::Kind::issue, call, busy});
    last_ = std::max(last_, issued);
    open_.emplace(std::max(times_[call].finished, issued), call);
  }

  void wait(const Open& open) {
    steps_.push_back({ReplayStep::Kind::wait, open.second, busy_.between(last_, open.first)});
    last_ = std::max(last_, open.first);
  }

  std::span<const Times> times_;
  BusyTimes busy_;
  nanoseconds last_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<ReplayStep> steps_;
};

}  // namespace

std::vector<ReplayStep> timed_steps(std::span<const Times> times, std::span<const ComputeInterval> compute,
                                    nanoseconds begin) {
  return ReplayStepWriter(times, compute, begin).steps();
}

std::vector<ReplayStep> steps_without_times(std::size_t calls) {
  std::vector<ReplayStep> steps;
  steps.reserve(2 * calls);
  for (std::uint32_t call = 0; call < calls; ++call) {
    steps.push_back({ReplayStep::Kind::issue, call, {}});
    steps.push_back({ReplayStep::Kind::wait, call, {}});
  }
  return steps;
}

}  // namespace commlens::bench
