#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "commlens/live/follow_options.hpp"
#include "commlens/live/job_view.hpp"

// Alerts on what a job does for some time, found from one view after another: of the files of a recording and
// of the states of nodes alike. No clocks of ranks are compared.
namespace commlens {

/// One alert of a kind at a time, and how many there were.
class AlertOfKind {
 public:
  explicit AlertOfKind(std::string_view kind) : kind_(kind) {}
  /// Begins, or goes on with what is known now.
  void set(std::string text, std::vector<Rank> culprits, PollTime time);
  void end() { current_.reset(); }
  const std::optional<LiveAlert>& current() const { return current_; }
  void add_to(JobView& view) const;

 private:
  std::string kind_;
  std::optional<LiveAlert> current_;
  std::int64_t fired_ = 0;
};

/// Ranks that are slow themselves and cost the others time. A rank is one in a window of k_window if at each
/// look at least k_score of its latest blocks were slow (LiveRank::late_score), and the part of the window
/// that it spent in calls is less than that of the others (the median of theirs) by at least k_cost. Those of
/// k_enough windows in a row are the culprits; half of k_cost keeps them. A window goes on until the calls of
/// more than half of the ranks tell of half of it: times are known when calls end.
class StragglerWatch {
 public:
  void look(const JobView& view, PollTime time);
  void forget();
  const AlertOfKind& alert() const { return alert_; }

  static constexpr std::chrono::seconds k_window{60};
  static constexpr double k_score = 0.5;
  static constexpr double k_cost = 0.10;
  static constexpr std::int64_t k_enough = 2;
  static constexpr std::int64_t k_least_iterations = 8;  // before the first window; where none are marked …
  static constexpr std::int64_t k_least_calls = 512;     // … calls of a rank

 private:
  /// A rank in the window.
  struct Mark {
    std::chrono::nanoseconds in_calls{};
    std::chrono::nanoseconds between_calls{};
    bool is_slow = true;  // at each look so far
    double lowest_score = 1;
  };
  struct Slow {
    std::int64_t windows = 0;
    double score = 0;
    double cost = 0;  // of the latest window
  };
  void begin(const JobView& view, PollTime time);
  /// False: too little of the window is known yet, so it goes on.
  bool close(const JobView& view);
  void tell(const JobView& view, PollTime time);

  std::optional<std::chrono::nanoseconds> began_;
  std::map<Rank, Mark> marks_;
  std::map<Rank, Slow> slow_;
  AlertOfKind alert_{k_alert_straggler};
};

/// Communicators that are made again and again, whose first calls take long. A period is an iteration or
/// more, of a program that marks none k_period. It counts if first calls of ranks on communicators
/// (LiveOp::first) took at least k_slower times as long as later calls of their row do, and longer than these
/// by k_share of the time of all ranks. k_enough in a row are an alert, as many others end it. What happens
/// in the first iteration, or the first k_start, is no part of it.
class ColdWatch {
 public:
  void look(const JobView& view, PollTime time);
  void forget();
  const AlertOfKind& alert() const { return alert_; }

  static constexpr std::chrono::seconds k_start{60};
  static constexpr std::chrono::seconds k_period{10};
  static constexpr double k_slower = 10;
  static constexpr double k_share = 0.10;
  static constexpr std::int64_t k_enough = 3;

 private:
  using Key = std::tuple<CommKind, std::string, Axis, std::int64_t>;
  struct First {
    std::int64_t calls = 0;
    std::chrono::nanoseconds time{};
  };
  /// First calls of a period that took longer than later ones.
  struct Excess {
    std::int64_t calls = 0;
    double seconds = 0;   // in excess
    std::string largest;  // the row with most of it, in words
  };
  void begin(const JobView& view, PollTime time);
  Excess excess(const JobView& view) const;
  void close(const JobView& view, PollTime time);

  std::optional<std::chrono::nanoseconds> first_look_;
  std::optional<std::chrono::nanoseconds> began_;
  Iteration iteration_ = 0;     // the highest, then
  std::int64_t completed_ = 0;  // iterations, then
  double all_ranks_ = 0;        // their time, then
  std::map<Key, First> first_;  // then
  bool is_marked_ = false;
  std::int64_t in_a_row_ = 0;  // periods that count; below 0: that do not
  AlertOfKind alert_{k_alert_cold};
};

/// Calls that the recording or the follower loses while the job runs (LiveRank::lost_records of a rank
/// grows): an alert until none was lost for k_over.
class LossWatch {
 public:
  void look(const JobView& view, PollTime time);
  void forget();
  const AlertOfKind& alert() const { return alert_; }

  static constexpr std::chrono::seconds k_over{60};

 private:
  std::map<Rank, std::int64_t> before_;
  std::set<Rank> ranks_;  // that lost some since the alert began
  std::optional<std::chrono::nanoseconds> grew_;
  AlertOfKind alert_{k_alert_lost};
};

/// All three.
class JobAlerts {
 public:
  /// After a poll: adds the alerts that hold to the view, which has that of a hang, and counts them.
  void look(JobView& view, PollTime time);

 private:
  std::int64_t generation_ = 0;
  StragglerWatch straggler_;
  ColdWatch cold_;
  LossWatch loss_;
};

}  // namespace commlens
