#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"

namespace commlens {

/// Whether some process records into `folder`.
bool is_being_recorded(const std::filesystem::path& folder);

/// The trace that stands where a recording is to go. It moves aside, to a hidden name beside its own
/// (".NAME.before-MACHINE-PID"), before the recording starts. It is removed once the recording holds
/// something, and comes back when nothing was recorded. What a process that was killed has left aside, the
/// next one for the same folder on this machine removes or brings back by the same rule.
class EarlierTrace {
 public:
  /// Puts aside what is in `folder`, if anything; a link is followed. Nothing happens when some process
  /// records into the folder: is_used() says so. Fails when the folder holds anything else than a trace.
  /// Throws SystemError.
  static Result<EarlierTrace> put_aside(const std::filesystem::path& folder);
  ~EarlierTrace();
  EarlierTrace(EarlierTrace&& other) noexcept;
  EarlierTrace& operator=(EarlierTrace&&) = delete;
  EarlierTrace(const EarlierTrace&) = delete;
  EarlierTrace& operator=(const EarlierTrace&) = delete;

  bool is_used() const { return is_used_; }
  /// Where the recording goes: `folder`, absolute and without links.
  const std::filesystem::path& folder() const { return folder_; }

  /// The job is over: removes the earlier trace, or brings it back where nothing was recorded (true then). A
  /// rank that came to its end without a call counts as recorded. Throws a SystemError that says where the
  /// trace is when it cannot come back. The destructor, for a job that failed, does the same without a word,
  /// and ranks without anything count for nothing.
  bool settle();

 private:
  explicit EarlierTrace(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
  std::filesystem::path aside_;  // empty: there is none
  bool is_used_ = false;
};

}  // namespace commlens
