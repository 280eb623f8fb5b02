#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"

namespace commlens {

/// Whether a process records into `directory`.
bool is_being_recorded(const std::filesystem::path& directory);

/// An earlier trace at the path of a new recording. Before the recording starts, it is moved aside to a
/// hidden name in the same directory (".NAME.before-MACHINE-PID"). It is removed once the recording holds a
/// call, and restored if nothing was recorded. Traces put aside by killed processes are removed or restored,
/// by the same rule, by the next process that records into the same directory on this machine.
class EarlierTrace {
 public:
  /// Moves the trace in `directory`, if any, aside; follows links. Does nothing if a process records into the
  /// directory (see is_used()). Fails if the directory holds anything but a trace. Throws SystemError.
  static Result<EarlierTrace> put_aside(const std::filesystem::path& directory);
  ~EarlierTrace();
  EarlierTrace(EarlierTrace&& other) noexcept;
  EarlierTrace& operator=(EarlierTrace&&) = delete;
  EarlierTrace(const EarlierTrace&) = delete;
  EarlierTrace& operator=(const EarlierTrace&) = delete;

  bool is_used() const { return is_used_; }
  /// The target of the recording: `directory`, absolute and without links.
  const std::filesystem::path& directory() const { return directory_; }

  /// To be called when the job is over: removes the earlier trace, or restores it and returns true if nothing
  /// was recorded. A rank that ended without a call counts as recorded. Throws a SystemError that names the
  /// trace's path if it cannot be restored. The destructor, for a job that failed, does the same without
  /// errors, and ranks without calls do not count.
  bool settle();

 private:
  explicit EarlierTrace(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path directory_;
  std::filesystem::path aside_;  // empty: there is none
  bool is_used_ = false;
};

}  // namespace commlens
