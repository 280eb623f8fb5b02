#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "commlens/app/earlier_trace.hpp"
#include "commlens/app/recording_place.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens {

/// Fails unless a verb can record into `directory`, which -o names: it is absent, empty or an earlier trace,
/// and no other job records there.
Result<void> check_recording_directory(const std::string& directory);

/// The recording of a job that a verb runs, and the earlier trace at its path.
struct JobRecording {
  EarlierTrace earlier;
  std::optional<RecordingPlace> place;  // destroyed before the earlier trace is removed or restored

  /// Creates the trace directory and moves an earlier trace aside until calls are recorded. Fails if another
  /// job is faster; throws SystemError.
  static Result<JobRecording> started(const std::filesystem::path& directory, const RecordingInfo& info);

  void settle() {
    place.reset();
    earlier.settle();
  }
};

}  // namespace commlens
