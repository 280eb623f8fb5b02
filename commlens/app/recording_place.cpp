#include "commlens/app/recording_place.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace_directory.hpp"

namespace commlens {

namespace fs = std::filesystem;

namespace {

/// False if the directory was deleted or moved, and another job may have created it again.
bool is_same_file(int file, const fs::path& path) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

std::optional<RecordingPlace> RecordingPlace::taken(const fs::path& directory, const RecordingInfo& info) {
  RecordingPlace place;
  // Locked before the directory gets its name, so that no process sees it unlocked.
  const auto fill = [&](const fs::path& unfinished) {
    write_recording_manifest(unfinished, info);
    const fs::path lock = unfinished / k_training_file_name;
    place.file_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (place.file_ < 0) {
      throw SystemError(fmt::format("cannot write {}: {}", lock.string(), std::strerror(errno)));
    }
    static_cast<void>(::flock(place.file_, LOCK_EX | LOCK_NB));  // no other process knows the file yet
  };
  if (!place_trace_directory(directory, fill)) {
    return std::nullopt;
  }
  place.lock_ = fs::absolute(directory) / k_training_file_name;
  return place;
}

RecordingPlace::~RecordingPlace() {
  if (!lock_.empty() && is_same_file(file_, lock_)) {
    ::unlink(lock_.c_str());
  }
  if (file_ >= 0) {
    ::close(file_);
  }
}

RecordingPlace::RecordingPlace(RecordingPlace&& other) noexcept
    : lock_(std::exchange(other.lock_, {})), file_(std::exchange(other.file_, -1)) {}

}  // namespace commlens
