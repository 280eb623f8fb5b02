#pragma once
#include <cstdint>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// What the Trainer does after an optimizer step, besides the next one.
struct StepEvents {
  bool logs = false;
  bool saves = false;
  bool logs_at_end = false;   // after the last step, as at the end of an epoch: logging_strategy epoch
  bool saves_at_end = false;  // the same of save_strategy
  bool ends = false;          // the training is over
  friend bool operator==(const StepEvents&, const StepEvents&) = default;
};

/// Iterations with other events than the usual ones: `first`, and every `every`-th after it (0: no other).
struct EventRow {
  std::int64_t first = 0;
  std::int64_t every = 0;
  StepEvents events;
};

/// When it does what (DefaultFlowCallback of transformers 5.23 trainer_callback.py). `job` outlives it.
class Events {
 public:
  explicit Events(const Job& job);

  StepEvents at(std::int64_t iteration) const;
  /// Of iterations of which nothing else is known: what happens in each.
  StepEvents usual() const;
  /// From iteration `first` on, the first row that an iteration is in counts.
  std::vector<EventRow> others(std::int64_t first) const;

 private:
  bool is_due(std::int64_t step, std::int64_t every) const { return every > 0 && step % every == 0; }

  const Job& job_;
  std::int64_t log_every_ = 0;  // steps; 0: never
  std::int64_t save_every_ = 0;
};

}  // namespace commlens::huggingface
