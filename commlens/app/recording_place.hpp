#pragma once
#include <filesystem>
#include <optional>

#include "commlens/trace/recorder.hpp"

namespace commlens {

/// The file in a folder that `train` records into, which it holds locked as long as it does. A process that
/// is killed leaves it behind; so it has the ending of what a trace folder holds.
inline constexpr const char* k_training_file_name = "training-job.bin";

/// A recording that this process alone makes: from its first moment on, its folder counts as being recorded
/// (is_being_recorded) until this is destroyed or the process ends. On file systems without locks it counts
/// so only while ranks record.
class RecordingPlace {
 public:
  /// Makes the folder and its manifest where nothing is, or an empty folder. Nothing when another process was
  /// faster. Throws SystemError when the folder cannot be written.
  static std::optional<RecordingPlace> taken(const std::filesystem::path& folder, const RecordingInfo& info);
  ~RecordingPlace();
  RecordingPlace(RecordingPlace&& other) noexcept;
  RecordingPlace& operator=(RecordingPlace&&) = delete;
  RecordingPlace(const RecordingPlace&) = delete;
  RecordingPlace& operator=(const RecordingPlace&) = delete;

 private:
  RecordingPlace() = default;

  std::filesystem::path lock_;  // empty: not placed, or moved from
  int file_ = -1;
};

}  // namespace commlens
