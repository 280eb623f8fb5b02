#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/app/recording_check.hpp"
#include "commlens/app/train_request.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// How a training ended.
struct TrainResult {
  bool reports = true;       // false: in an MPI job, where the first process has what follows
  bool was_refused = false;  // another process has refused the job, and its result is the error
  std::vector<engine::IterationReport> iterations;
  Trace trace;                          // what was recorded
  bool stopped = false;                 // by stop_requested
  std::int64_t dropped = 0;             // calls of all ranks that are not in the trace
  std::optional<RecordingCheck> check;  // against the prediction; absent when calls were dropped
  std::vector<Bytes> peak_memory;       // of each rank's tensors; empty where it is not known
};

/// Trains, records every call and compares the recording with the prediction. Under an MPI launcher every
/// process calls it. Needs the engine module (libcommlens-engine.so). Fails for what cannot be trained;
/// throws SystemError when a rank fails.
Result<TrainResult> train(const TrainRequest& request);

}  // namespace commlens
