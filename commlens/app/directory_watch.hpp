#pragma once
#include <filesystem>
#include <string>

namespace commlens {

/// Whether a folder was deleted or moved away while this lived, by the notes that the kernel keeps of the
/// folder around it (inotify). What another machine does on a shared file system is not seen.
class FolderWatch {
 public:
  /// `folder` is absolute and need not exist; the folder around it does, or nothing is seen.
  explicit FolderWatch(const std::filesystem::path& folder);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  /// Up to now. Never waits.
  bool has_seen_it_go();

 private:
  std::string name_;
  int notes_;
  bool has_gone_ = false;
};

}  // namespace commlens
