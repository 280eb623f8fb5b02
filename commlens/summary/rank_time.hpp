#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Divides the time of one rank, by its own clock only, into time *in calls* and time *between calls*, its
/// own work. The starts and ends of calls divide the time into pieces:
///
///   a piece that ends because a call starts    is between calls: nothing held the rank up, or it could not
///                                              have started the call;
///   a piece that ends because a call ends      is in calls, but for what the rank computed in it (where the
///                                              trace has compute intervals of it).
///
/// For sequential calls this is the time outside and inside of them. A request that stays open while the rank
/// goes on does not hide its work. Of a non-blocking call, the time between the last call before its end and
/// that end counts as in calls: an upper bound of the rank's wait.
///
/// Calls come in issue order. A start before an earlier call's counts as at the same moment as that one. Of
/// more than a million calls under way at once those that end first are assumed to be ended.
class RankTime {
 public:
  /// So far.
  struct Totals {
    std::int64_t at_ns = 0;
    std::int64_t between_ns = 0;
    std::int64_t in_calls_ns = 0;
    std::int64_t all_ns() const { return saturating_sum(between_ns, in_calls_ns); }
  };
  /// Returns the next compute intervals, ascending by start; empty at the end.
  using MoreCompute = std::function<std::vector<ComputeInterval>()>;

  explicit RankTime(MoreCompute more_compute = {}) : more_compute_(std::move(more_compute)) {}

  /// Calls on_end(tag, label, totals) for each call that ends before this one starts, in the order of the
  /// ends; `tag` and `label` are what it was added with.
  template <typename OnEnd>
  void add(const Interval& call, std::uint32_t tag, std::int64_t label, const OnEnd& on_end) {
    start(call.started.count(), on_end);
    if (open_.size() >= k_most_open) {
      on_end(open_.front().tag, open_.front().label, totals_);
      take_first();
    }
    open(call.finished.count(), tag, label);
  }

  /// After the last call.
  template <typename OnEnd>
  void finish(const OnEnd& on_end) {
    while (!open_.empty()) {
      end_first(on_end);
    }
  }

  const Totals& totals() const { return totals_; }

 private:
  static constexpr std::size_t k_most_open = std::size_t{1} << 20;

  /// A call in progress.
  struct Open {
    std::int64_t end_ns = 0;
    std::int64_t label = 0;
    std::uint32_t tag = 0;
    friend bool operator>(const Open& a, const Open& b) { return a.end_ns > b.end_ns; }
  };

  template <typename OnEnd>
  void start(std::int64_t at_ns, const OnEnd& on_end) {
    while (!open_.empty() && open_.front().end_ns <= at_ns) {
      end_first(on_end);
    }
    if (!has_begun_) {
      has_begun_ = true;
      totals_.at_ns = at_ns;
    }
    if (at_ns > totals_.at_ns) {
      totals_.between_ns += at_ns - totals_.at_ns;
      totals_.at_ns = at_ns;
    }
  }

  template <typename OnEnd>
  void end_first(const OnEnd& on_end) {
    const Open ended = take_first();
    pass(ended.end_ns);
    on_end(ended.tag, ended.label, totals_);
  }

  void open(std::int64_t end_ns, std::uint32_t tag, std::int64_t label);
  Open take_first();
  /// Adds the time in calls up to `end_ns`, without computing.
  void pass(std::int64_t end_ns);
  const ComputeInterval* current_interval();
  std::int64_t computed(std::int64_t begin_ns, std::int64_t end_ns);

  MoreCompute more_compute_;
  std::vector<ComputeInterval> compute_;
  std::size_t next_compute_ = 0;
  std::int64_t computed_until_ns_ = INT64_MIN;
  std::vector<Open> open_;  // a heap, the first to end in front
  bool has_begun_ = false;
  Totals totals_;
};

}  // namespace commlens
