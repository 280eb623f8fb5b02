#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "commlens/base/result.hpp"
#include "commlens/live/job_view.hpp"

namespace commlens {

struct FollowOptions {
  /// A job counts as hung when nothing of what waits has moved for so long; absent: k_least_hang or
  /// k_pauses times its longest pause so far, whichever is longer, and at most k_most_hang.
  std::optional<std::chrono::nanoseconds> hang_after;
  static constexpr std::chrono::seconds k_least_hang{30};
  static constexpr std::int64_t k_pauses = 10;
  static constexpr std::chrono::seconds k_most_hang{300};
  /// One poll is all there will be: what is not there yet is counted as lost, as `summary` does, and who
  /// waits for whom is taken as it is.
  bool is_single = false;
};

/// When a poll is made.
struct PollTime {
  std::chrono::nanoseconds steady{};  // of the follower's stopwatch
  std::int64_t unix_ns = 0;           // of the wall clock
  static PollTime now();
};

/// Reads the folder of a recording while the job fills it. Files are opened for reading alone, never mapped,
/// and nothing is locked, signalled or written; the folder may appear later, be removed, or be replaced by
/// another recording. Not thread-safe: one thread polls, and copies of the view go to others.
class FolderFollower {
 public:
  explicit FolderFollower(std::filesystem::path directory, FollowOptions options = {});
  FolderFollower(FolderFollower&&) noexcept;
  FolderFollower& operator=(FolderFollower&&) noexcept;
  FolderFollower(const FolderFollower&) = delete;
  FolderFollower& operator=(const FolderFollower&) = delete;
  ~FolderFollower();

  /// Reads what is new. Fails where the path is none that can ever be followed: a file, or a trace that is no
  /// recording; what is damaged or missing is said in the view.
  Result<void> poll(PollTime time = PollTime::now());
  /// As of the last poll.
  const JobView& view() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commlens
