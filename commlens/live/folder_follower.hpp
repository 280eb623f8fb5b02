#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "commlens/base/result.hpp"
#include "commlens/live/follow_options.hpp"
#include "commlens/live/job_view.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

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
  /// The highest iteration that all ranks are through with, by the marks of the program; below 0: none.
  Iteration whole_iteration() const;
  /// Of an option of FollowOptions: the calls of an iteration, one of the latest few; absent where it has
  /// none, or not all are known.
  std::optional<Trace> iteration(Iteration wanted) const;
  /// The same of a program that marks no iterations: the latest calls of each rank
  /// (LatestIterations::outside()).
  Trace latest_calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commlens
