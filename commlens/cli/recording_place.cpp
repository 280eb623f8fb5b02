#include "commlens/cli/recording_place.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {

namespace fs = std::filesystem;

std::optional<RecordingPlace> RecordingPlace::taken(const fs::path& folder, const RecordingInfo& info) {
  RecordingPlace place;
  // Locked before the folder has its name: nobody sees it unlocked.
  const auto fill = [&](const fs::path& unfinished) {
    write_recording_manifest(unfinished, info);
    const fs::path lock = unfinished / k_recording_lock_name;
    place.file_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (place.file_ < 0 || ::flock(place.file_, LOCK_EX | LOCK_NB) != 0) {
      throw SystemError(fmt::format("cannot lock {}: {}", lock.string(), std::strerror(errno)));
    }
  };
  if (!place_trace_folder(folder, fill)) {
    return std::nullopt;
  }
  place.lock_ = fs::absolute(folder) / k_recording_lock_name;
  return place;
}

RecordingPlace::~RecordingPlace() {
  if (!lock_.empty()) {
    ::unlink(lock_.c_str());
  }
  if (file_ >= 0) {
    ::close(file_);
  }
}

RecordingPlace::RecordingPlace(RecordingPlace&& other) noexcept
    : lock_(std::exchange(other.lock_, {})), file_(std::exchange(other.file_, -1)) {}

}  // namespace commlens
