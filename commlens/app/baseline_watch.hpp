#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/live/job_view.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Compares how long the calls of a job take, while it runs, with an earlier recording of it: each
/// k_iterations whole iterations, k_apart from each other, by regression() (Mann-Whitney over iterations,
/// Holm over rows). Rows that are slower by more than a tenth, significantly, are an alert (k_alert_slower)
/// until a test finds none.
class BaselineWatch {
 public:
  /// Fails where `path` is no recording whose times can be compared.
  static Result<BaselineWatch> open(const std::string& path, const Events& events);

  /// After a poll of `follower`, whose view is `view`.
  void look(JobView& view, const FolderFollower& follower, const PollTime& time);

  static constexpr std::int64_t k_iterations = 12;
  /// From one iteration that is compared to the next: those of one moment find the machine in one state.
  static constexpr std::chrono::seconds k_apart{1};

 private:
  BaselineWatch(std::string source, Trace baseline, Events events)
      : baseline_(std::move(baseline)), source_(std::move(source)), events_(std::move(events)) {
    state_.source = source_;
  }

  void forget(std::int64_t generation);
  void add(Trace iteration);
  void say_error(const std::string& error);
  void test(const PollTime& time);
  void settle_alert(const PollTime& time);

  Trace baseline_;
  std::string source_;
  Events events_;
  std::int64_t generation_ = 0;
  LiveBaseline state_;
  Trace collected_;  // iterations since the last test, one before them included
  std::int64_t iterations_ = 0;
  Iteration last_ = -1;
  std::optional<std::chrono::nanoseconds> added_at_;
  std::optional<LiveAlert> alert_;
  std::int64_t fired_ = 0;
};

}  // namespace commlens
