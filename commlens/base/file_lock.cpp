#include "commlens/base/file_lock.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/unfinished.hpp"

namespace commlens {
namespace {

/// Whether a descriptor is of the file that has the name now: it may have been replaced while it was waited
/// for.
bool is_still_named(int file, const std::filesystem::path& path) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// Whether the file system has locks.
bool waited_for_lock(int file) {
  while (::flock(file, LOCK_EX) != 0) {
    if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path) {
  const WritePlace place = write_place(path);
  if (place.is_appended_to) {
    return;
  }
  for (bool is_held = false; !is_held;) {
    file_ = ::open(place.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    made_ = file_ >= 0 ? place.path : std::filesystem::path();
    if (file_ < 0 && errno == EEXIST) {
      file_ = ::open(place.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    if (file_ < 0) {
      throw_cannot_write(path, errno);
    }
    is_held = !waited_for_lock(file_) || is_still_named(file_, place.path);
    if (!is_held) {
      ::close(file_);
    }
  }
}

FileLock::~FileLock() {
  struct stat made = {};
  if (!made_.empty() && is_still_named(file_, made_) && fstat(file_, &made) == 0 && made.st_size == 0) {
    static_cast<void>(::unlink(made_.c_str()));  // those that wait for it find that, and make another
  }
  if (file_ >= 0) {
    ::close(file_);
  }
}

}  // namespace commlens
