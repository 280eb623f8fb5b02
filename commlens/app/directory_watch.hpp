#pragma once
#include <filesystem>
#include <string>

namespace commlens {

/// Detects whether a directory was deleted or moved during this object's lifetime, by inotify on its parent
/// directory. Changes made by another machine on a shared file system are not detected.
class DirectoryWatch {
 public:
  /// `directory` is absolute and need not exist; without its parent directory nothing is detected.
  explicit DirectoryWatch(const std::filesystem::path& directory);
  ~DirectoryWatch();
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  /// Whether that has happened so far. Does not block.
  bool has_seen_it_go();

 private:
  std::string name_;
  int notes_;
  bool has_gone_ = false;
};

}  // namespace commlens
