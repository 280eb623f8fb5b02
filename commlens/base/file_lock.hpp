#pragma once
#include <filesystem>

namespace commlens {

/// Keeps other processes that lock the same file from it, while this one reads and replaces it (as
/// write_file_atomically does). Waits for them first. The file is created, empty, where it is missing, and
/// removed at the end where nothing has replaced it. Where the file system has no locks, and for devices and
/// pipes, nothing is locked.
class FileLock {
 public:
  /// Throws SystemError where the file cannot be created.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_ = -1;
  std::filesystem::path made_;  // by this lock; empty: the file was there
};

}  // namespace commlens
