#pragma once
#include <filesystem>
#include <functional>
#include <optional>

namespace commlens {

/// A temporary file or directory of this process: unfinished output, or a copy kept while it is read. The
/// destructor removes it with its contents. So does a signal that ends the program, if the program called
/// remove_unfinished_on_signals (a loaded module has its own list, which signals do not cover).
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Stops tracking the path: the file has been renamed, and a new file of this name is not ours to remove.
  void finished();

  /// Runs `write`. A SystemError that names the path, or something in it, names `shown` instead.
  void write_as(const std::filesystem::path& shown, const std::function<void()>& write) const;

 private:
  std::filesystem::path path_;
  int slot_;
  bool is_finished_ = false;
};

/// Where output for `path` is written.
struct WritePlace {
  std::filesystem::path path;  // after links are resolved; need not exist
  bool is_appended_to;         // a device, a pipe or an inherited descriptor (/dev/stdout): not replaced
};
WritePlace write_place(const std::filesystem::path& path);

/// Creates an empty file "TARGET.PID-N.tmp". Returns std::nullopt and sets errno if none can be created.
std::optional<std::filesystem::path> try_new_file_beside(const std::filesystem::path& target);
/// As try_new_file_beside, but throws a SystemError that names `target`.
std::filesystem::path new_file_beside(const std::filesystem::path& target);
/// Creates a directory of such a name, and its parent directories if needed.
std::filesystem::path new_directory_beside(const std::filesystem::path& target);

/// Installs handlers for the signals that end a program (SIGINT, SIGTERM, SIGHUP, …): they remove unfinished
/// files and then end the program as before. Signals that were ignored at the start stay ignored. For our own
/// programs only: code loaded into another program must not change its handlers.
void remove_unfinished_on_signals();

/// Replaces the directory `target` by the directory `fresh`, atomically where the file system supports it.
/// The old contents are removed, or are at `fresh` afterwards for its Unfinished to remove. Throws a
/// SystemError that names `target` on failure; `target` is then unchanged.
void replace_directory(const std::filesystem::path& target, const std::filesystem::path& fresh);

}  // namespace commlens
