#pragma once
#include <filesystem>
#include <optional>

#include "commlens/trace/recorder.hpp"

namespace commlens {

/// The lock file in a directory into which `train` records. A killed process does not remove it, so its
/// extension is one that a trace directory may contain.
inline constexpr const char* k_training_file_name = "training-job.bin";

/// A recording made by this process only. Its directory counts as being recorded (is_being_recorded) until
/// this object is destroyed or the process ends; on file systems without locks, only while ranks record.
class RecordingPlace {
 public:
  /// Creates the directory, which must be missing or empty, and its manifest. std::nullopt if another process
  /// was faster. Throws SystemError if the directory cannot be written.
  static std::optional<RecordingPlace> taken(const std::filesystem::path& directory,
                                             const RecordingInfo& info);
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
