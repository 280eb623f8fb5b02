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
  bool reports = true;       // false on MPI processes but the first, which has the members below
  bool was_refused = false;  // another process has refused the job, and its result is the error
  std::vector<engine::IterationReport> iterations;
  Trace trace;               // of the recording
  bool stopped = false;      // by stop_requested
  std::int64_t dropped = 0;  // calls of all ranks that could not be recorded
  std::optional<RecordingCheck>
      check;  // compared with the prediction; absent if calls were dropped, or a ring has no whole iteration
  std::vector<Bytes> peak_memory;  // of each rank's tensors; empty where it is not known
};

/// Trains, records every call and compares the recording with the prediction. Under an MPI launcher every
/// process calls it. Needs the engine module (libcommlens-engine.so). Fails if the job cannot be trained;
/// throws SystemError if a rank fails.
Result<TrainResult> train(const TrainRequest& request);

}  // namespace commlens
