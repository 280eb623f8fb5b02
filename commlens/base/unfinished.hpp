#pragma once
#include <filesystem>
#include <functional>

namespace commlens {

/// A file or folder that nobody is to see: one that is not finished, or a copy for the time of reading. It is
/// removed, with all in it, when this object goes (a finished one was renamed before) and when a signal ends
/// the program, if that asked for it (remove_unfinished_on_signals). It need not exist.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::filesystem::path& path() const { return path_; }

  /// Runs `write`. A SystemError that names the path, or something in it, names `shown` instead.
  void write_as(const std::filesystem::path& shown, const std::function<void()>& write) const;

 private:
  std::filesystem::path path_;
  int slot_;
};

/// From now on SIGINT, SIGTERM and SIGHUP remove what is unfinished and then end the program as they do
/// anyway; those that whoever started it had ignored stay ignored. For programs of ours alone: code in the
/// process of somebody else leaves signals as they are.
void remove_unfinished_on_signals();

/// Puts the folder `fresh` in the place of the folder `target`, whose content is lost. Throws a SystemError
/// that names `target` when that fails; then `target` is as it was.
void replace_folder(const std::filesystem::path& target, const std::filesystem::path& fresh);

}  // namespace commlens
