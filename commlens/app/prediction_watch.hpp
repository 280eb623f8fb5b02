#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/events.hpp"
#include "commlens/app/job_source.hpp"
#include "commlens/base/result.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/live/job_view.hpp"

namespace commlens {

/// What a job that is followed is compared with.
struct ExpectedJob {
  std::string config;  // as `compare` takes one
  std::string framework;
  Overrides overrides;
};

/// Compares iterations of a job, while it runs, with what its configuration says, call by call: the latest
/// whole one, k_rest after one that was as predicted, and at once after one that was not. k_enough, one after
/// the other, that differ alike are an alert (k_alert_volume) until one is as predicted; of a job that has
/// ended, or is looked at once, as many as are known. Of a program that marks no iterations,
/// repeated_iteration() is one that stands for several.
class PredictionWatch {
 public:
  /// Fails where `expected` is no configuration, or one that no job can have, whatever its number of ranks.
  static Result<PredictionWatch> open(const ExpectedJob& expected, const Events& events);

  /// After a poll of `follower`, whose view is `view`: says there how the job and the prediction compare.
  void look(JobView& view, const FolderFollower& follower, const PollTime& time, bool is_single);

  static constexpr std::chrono::seconds k_rest{10};
  static constexpr std::int64_t k_enough = 3;

 private:
  PredictionWatch(Side predicted, Overrides overrides, const Events& events)
      : predicted_(std::move(predicted)),
        overrides_(std::move(overrides)),
        events_(events),
        planner_(events) {}

  void forget(const JobView& view);
  Result<void> plan_for(const Trace& recorded);
  Result<Comparison> compared(Iteration iteration);
  void compare_next(const JobView& view, const FolderFollower& follower, const PollTime& time);
  void compare_marked(const FolderFollower& follower, const PollTime& time);
  void compare_repeated(const JobView& view, const FolderFollower& follower, const PollTime& time);
  void count(const Comparison& comparison);
  void count_alike(const FolderFollower& follower, Iteration last);
  void settle_alert(bool is_last, const PollTime& time);
  void say_error(const Error& error);

  Side predicted_;
  Overrides overrides_;
  Events events_;
  Planner planner_;
  std::optional<Plan> plan_;
  Side recorded_;  // the iteration that was compared last
  std::optional<Comparison> last_;
  std::int64_t generation_ = 0;
  LivePrediction state_;
  std::optional<std::chrono::nanoseconds> compared_at_;
  std::int64_t calls_until_next_ = 0;  // of a program that marks no iterations: of all ranks
  std::string waits_for_;              // why there is no iteration to compare
  std::string difference_;             // of the last iteration; empty: none
  bool is_alone_ = false;              // an earlier iteration does not differ so
  std::optional<LiveAlert> alert_;
  std::int64_t fired_ = 0;
};

}  // namespace commlens
