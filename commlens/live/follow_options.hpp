#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace commlens {

struct FollowOptions {
  /// A job counts as hung when nothing of what waits has moved for so long; absent: k_least_hang or
  /// k_pauses times its longest pause so far, whichever is longer, and at most k_most_hang.
  std::optional<std::chrono::nanoseconds> hang_after;
  static constexpr std::chrono::seconds k_least_hang{30};
  static constexpr std::int64_t k_pauses = 10;
  static constexpr std::chrono::seconds k_most_hang{300};
  /// So many times sooner where it is beyond doubt: a mismatch, or culprits whose processes are gone.
  static constexpr std::int64_t k_sooner = 10;
  /// One poll is all there will be: what is not there yet is counted as lost, as `summary` does, and who
  /// waits for whom is taken as it is.
  bool is_single = false;
  /// The folder has the ranks of one node of several: others follow all of them together.
  bool is_part = false;
  /// A pause that a rank has announced is looked at as any other time.
  bool ignores_pauses = false;
  /// Keeps the calls of the latest iterations, for FolderFollower::iteration(), and their times.
  bool keeps_iterations = false;
  bool keeps_times = false;
};

/// When a poll is made.
struct PollTime {
  std::chrono::nanoseconds steady{};  // of the follower's stopwatch
  std::int64_t unix_ns = 0;           // of the wall clock
  static PollTime now();
};

}  // namespace commlens
