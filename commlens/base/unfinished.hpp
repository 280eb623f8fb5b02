#pragma once
#include <filesystem>
#include <functional>
#include <optional>

namespace commlens {

/// A file or folder of ours that nobody is to see: one that is not finished, or a copy for the time of
/// reading. It is removed, with all in it, when this object goes and when a signal ends the program, if that
/// asked for it (remove_unfinished_on_signals; a loaded module has a list of its own, which is not covered).
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// It has another name now; what may get this one is not ours.
  void finished();

  /// Runs `write`. A SystemError that names the path, or something in it, names `shown` instead.
  void write_as(const std::filesystem::path& shown, const std::function<void()>& write) const;

 private:
  std::filesystem::path path_;
  int slot_;
  bool is_finished_ = false;
};

/// Where what is written to `path` goes.
struct WritePlace {
  std::filesystem::path path;  // the file or folder behind links, which need not exist
  bool is_appended_to;         // a device, a pipe or somebody's open descriptor (/dev/stdout): not replaced
};
WritePlace write_place(const std::filesystem::path& path);

/// A new, empty file "TARGET.PID-N.tmp". Nothing, and errno, where none can be made.
std::optional<std::filesystem::path> try_new_file_beside(const std::filesystem::path& target);
/// The same; throws the SystemError that names `target`.
std::filesystem::path new_file_beside(const std::filesystem::path& target);
/// A new folder of such a name, in one that is made if need be.
std::filesystem::path new_folder_beside(const std::filesystem::path& target);

/// From now on the signals that end a program from outside remove what is unfinished and then end the program
/// as they do anyway; those that whoever started it had ignored stay ignored. For programs of ours alone:
/// code in the process of somebody else leaves signals as they are.
void remove_unfinished_on_signals();

/// Puts the folder `fresh` in the place of the folder `target`, in one step where the file system can. What
/// stood there is lost, or stands at `fresh` then, for its Unfinished to remove. Throws a SystemError that
/// names `target` when that fails; then `target` is as it was.
void replace_folder(const std::filesystem::path& target, const std::filesystem::path& fresh);

}  // namespace commlens
