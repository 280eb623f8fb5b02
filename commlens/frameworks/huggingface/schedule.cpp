#include "commlens/frameworks/huggingface/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {

Events::Events(const Job& job) : job_(job), cold_(pytorch::options(job).ddp.is_used ? 4 : 2) {}

/// A part of the steps is as many as that is of all, rounded up (TrainerState.compute_steps).
bool Events::is_due(std::int64_t step, bool is_used, double every) const {
  const double all = static_cast<double>(std::max<std::int64_t>(options(job_).max_steps, 1));
  const double steps = every < 1 ? std::ceil(every * all) : every;
  return is_used && step % std::max<std::int64_t>(static_cast<std::int64_t>(steps), 1) == 0;
}

StepEvents Events::at(std::int64_t iteration) const {
  const Options& own = options(job_);
  const std::int64_t step = iteration + 1;
  StepEvents events;
  events.ends = step == own.max_steps;
  events.logs = (step == 1 && own.logging.first_step) ||
                is_due(step, own.logging.strategy == Interval::steps, own.logging.steps);
  events.saves = is_due(step, own.saving.strategy == Interval::steps, own.saving.steps) ||
                 (events.ends && own.saving.strategy == Interval::steps);
  events.logs_at_end = events.ends && own.logging.strategy == Interval::epoch && !events.logs;
  events.saves_at_end = events.ends && own.saving.strategy == Interval::epoch;
  return events;
}

std::int64_t Events::distinct() const {
  // One more than the job has, so that what repeats after it is no last iteration.
  std::int64_t last = 0;
  for (std::int64_t iteration = 0; iteration < job_.iterations; ++iteration) {
    const StepEvents events = at(iteration);
    last = events.logs || events.saves || events.ends ? iteration + 1 : last;
  }
  const bool always_logs = at(0).logs && at(1).logs && at(2).logs && at(3).logs && at(6).logs;
  return std::max(cold_, always_logs && last < job_.iterations ? cold_ : last + 1);
}

}  // namespace commlens::huggingface
