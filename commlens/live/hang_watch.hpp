#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/live/follow_options.hpp"
#include "commlens/live/job_progress.hpp"
#include "commlens/live/job_view.hpp"

namespace commlens {

/// Whether a communicator, or a call that a rank is inside of, has members that nobody has told anything of.
bool lacks_members(const JobProgress& job);

/// Decides by time whether a job hangs: when nothing of what waits, or is waited for, has moved for so long.
class HangWatch {
 public:
  explicit HangWatch(const FollowOptions& options) : options_(options) {}

  /// Looks who waits for whom. `moved`: when each of the ranks of `hang.job` last entered or left a call, by
  /// the stopwatch that says `now`. A job that is over hung when it ended if ranks waited then.
  void look(LiveHang& hang, const std::vector<std::chrono::nanoseconds>& moved, std::chrono::nanoseconds now,
            LiveState state);

  /// Updates the alerts of a view whose `hang` was looked at. Who kills a hung job lets it go on first
  /// (launchers send SIGCONT before SIGTERM): what moves then, and waits when the job is over or processes of
  /// it are gone, is the same alert.
  void alert(JobView& view, std::int64_t unix_ns);

  /// Another job is in the place of the one before.
  void forget();

 private:
  std::chrono::nanoseconds limit() const;

  FollowOptions options_;
  std::chrono::nanoseconds longest_pause_{};  // that ended by itself
  std::chrono::nanoseconds still_for_{};      // at the last look
  std::chrono::nanoseconds unannounced_{};    // … of it, since the end of a pause that was announced
  std::optional<std::chrono::nanoseconds> paused_until_;
  std::int64_t fired_ = 0;
  std::optional<LiveAlert> current_;
  std::optional<LiveAlert> latest_;  // that is over
  std::int64_t over_unix_ns_ = 0;    // … since when
};

}  // namespace commlens
