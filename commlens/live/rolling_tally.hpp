#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/live/job_view.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Sums of the last seconds, by the follower's stopwatch.
class SlidingSums {
 public:
  void add(std::int64_t second, Bytes message, std::chrono::nanoseconds time) {
    Second& part = seconds_[static_cast<std::size_t>(second) % seconds_.size()];
    if (part.second != second) {
      part = {.second = second};
    }
    ++part.calls;
    part.message_bytes = saturating_sum(part.message_bytes, message.value);
    part.time_ns = saturating_sum(part.time_ns, time.count());
  }
  /// Of the `k_live_window` that end with `second`, which is not over; wire bytes are left to the caller.
  LiveSums sum(std::int64_t second) const;

 private:
  struct Second {
    std::int64_t second = -1;
    std::int64_t calls = 0;
    std::int64_t message_bytes = 0;
    std::int64_t time_ns = 0;
  };
  std::array<Second, std::size_t{k_live_window.count()}> seconds_;
};

/// Adds completed calls one by one, in constant memory: sums and a histogram of durations for each op, axis
/// and group size, as `summary` has rows, and the last seconds of each.
class RollingTally {
 public:
  /// Rows beyond so many share one for each kind, whose name is k_more.
  static constexpr std::size_t k_most_rows = 4096;
  static constexpr const char* k_more = "(more)";

  /// The row of an op's calls; `job_ranks` as Trace::job_ranks().
  std::uint32_t row_of(const Trace& tables, const CommOp& op, std::int64_t job_ranks);

  /// What is added from now on happens in this second.
  void set_second(std::int64_t second) { second_ = second; }
  std::int64_t second() const { return second_; }

  /// A call that has completed, with its duration or without; `is_recent`: in the last seconds.
  void add(std::uint32_t row, Bytes message, const std::chrono::nanoseconds* duration, bool is_recent = true);

  /// A call that was added with a duration is the first of its rank on its communicator.
  void add_first(std::uint32_t row, std::chrono::nanoseconds duration);

  /// In the order of settled_ops().
  std::vector<LiveOp> ops() const;

 private:
  using Key = std::tuple<CommKind, std::string, Axis, std::int64_t>;
  struct Row {
    LiveOp op;
    SlidingSums recent;
  };

  std::map<Key, std::uint32_t> places_;
  std::vector<Row> rows_;
  std::int64_t second_ = 0;
};

/// Fills what follows from the sums of each row (wire bytes, bandwidth), and puts the rows in order: most
/// message bytes first, as `summary` orders them.
std::vector<LiveOp> settled_ops(std::vector<LiveOp> ops);

void add_sums(LiveSums& total, const LiveSums& sums);

/// Sums over rows.
LiveSums total_of(const std::vector<LiveOp>& ops, LiveSums LiveOp::* part);

}  // namespace commlens
