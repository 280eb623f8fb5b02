#pragma once
#include <cstdint>

#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// What the Trainer does after an optimizer step, besides the next one.
struct StepEvents {
  bool logs = false;
  bool saves = false;
  bool logs_at_end = false;   // after the last step, as at the end of an epoch: logging_strategy epoch
  bool saves_at_end = false;  // the same of save_strategy
  bool ends = false;          // the training is over
};

/// When it does what (DefaultFlowCallback of transformers 5.23 trainer_callback.py).
class Events {
 public:
  explicit Events(const Job& job);

  StepEvents at(std::int64_t iteration) const;
  /// Iterations to be written until they repeat, as far as the job goes.
  std::int64_t distinct() const;

 private:
  bool is_due(std::int64_t step, bool is_used, double every) const;

  const Job& job_;
  std::int64_t cold_ = 2;  // iterations that differ whatever is logged
};

}  // namespace commlens::huggingface
