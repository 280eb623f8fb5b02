#include "commlens/frameworks/huggingface/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "commlens/base/rank.hpp"
#include "commlens/frameworks/huggingface/options.hpp"

namespace commlens::huggingface {
namespace {

constexpr std::int64_t k_longest_interval = 1'000'000'000;  // its square is still an integer

constexpr std::int64_t k_last_iteration = std::numeric_limits<Iteration>::max();

/// Steps between events, 0 for none. A part of all steps is as many as that is, rounded up
/// (TrainerState.compute_steps); of a training of unknown length it never comes.
std::int64_t interval(Interval strategy, double steps, std::int64_t all) {
  if (strategy != Interval::steps || (steps < 1 && all < 1)) {
    return 0;
  }
  const double count = steps < 1 ? std::ceil(steps * static_cast<double>(all)) : steps;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 1, k_longest_interval);
}

/// The first iteration from `first` on whose step is due.
std::int64_t next_due(std::int64_t first, std::int64_t every) { return (first / every + 1) * every - 1; }

}  // namespace

Events::Events(const Job& job) : job_(job) {
  const Options& own = options(job);
  log_every_ = interval(own.logging.strategy, own.logging.steps, own.max_steps);
  save_every_ = interval(own.saving.strategy, own.saving.steps, own.max_steps);
}

StepEvents Events::at(std::int64_t iteration) const {
  const Options& own = options(job_);
  const std::int64_t step = iteration + 1;
  StepEvents events;
  events.ends = step == own.max_steps;
  events.logs = (step == 1 && own.logging.first_step) || is_due(step, log_every_);
  events.saves = is_due(step, save_every_) || (events.ends && own.saving.strategy == Interval::steps);
  events.logs_at_end = events.ends && own.logging.strategy == Interval::epoch && !events.logs;
  events.saves_at_end = events.ends && own.saving.strategy == Interval::epoch;
  return events;
}

StepEvents Events::usual() const { return {.logs = log_every_ == 1, .saves = save_every_ == 1}; }

std::vector<EventRow> Events::others(std::int64_t first) const {
  std::vector<EventRow> rows;
  const std::int64_t last = options(job_).max_steps - 1;
  if (last >= first && last <= k_last_iteration) {
    rows.push_back({last, 0, at(last)});
  }
  const StepEvents usually = usual();
  const auto add = [&](std::int64_t every, const StepEvents& events) {
    if (every > 1 && events != usually && next_due(first, every) <= k_last_iteration) {
      rows.push_back({next_due(first, every), every, events});
    }
  };
  if (log_every_ > 0 && save_every_ > 0) {
    add(std::lcm(log_every_, save_every_), {.logs = true, .saves = true});
  }
  add(log_every_, {.logs = true, .saves = usually.saves});
  add(save_every_, {.logs = usually.logs, .saves = true});
  return rows;
}

}  // namespace commlens::huggingface
