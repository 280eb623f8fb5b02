#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// What is timed: one row of a benchmark, or one variant (algorithm, transport) of a row. All ranks of the
/// world hold the same rows in the same order; a rank that does not take part has an empty `call`.
struct TimedRow {
  std::string name;  // for error messages
  std::function<void()>
      call;  // makes this rank's part of one call (or of several, in flight at once) and waits
  std::function<void()> prepare = {};  // before the barrier of each sample but the first; may be empty
};

/// The samples of one row on the world's first rank, in round order; empty on the others. Seconds.
struct RowSamples {
  double first_s = 0;                  // the very first call, which connects
  std::vector<double> span_s;          // last exit - first entry, over all ranks of the row, on one clock
  std::vector<double> skew_s;          // last entry - first entry
  std::vector<double> local_s;         // the longest exit - entry of any rank, by its own clock
  std::vector<std::int64_t> round;     // in which each sample was taken: even and odd rounds are independent
  std::vector<std::int64_t> switches;  // involuntary context switches of all ranks during the sample
};

struct RoundResult {
  std::vector<RowSamples> rows;
  std::int64_t rounds = 0;
  bool was_stopped = false;     // by stop_requested: what there is, is valid
  double clock_error_s = 0;     // how far clocks of two ranks may be apart; 0 on one machine
  std::int64_t timed_rows = 0;  // rows that are timed no more
};

/// When to stop, and in which order rows are timed.
struct RoundOptions {
  std::uint64_t seed = 1;          // of the shuffles; the same on all ranks
  std::int64_t least_rounds = 30;  // an interval of the median needs 30 samples
  std::int64_t most_rounds = 1000;
  std::chrono::nanoseconds time{std::chrono::seconds(1)};  // per row; then a row is timed no more
  double settled = 0.05;  // half width of the median's interval, relative, at which a row is timed no more
  /// Asked on every rank between rounds, and between the rows of the first one and of long ones: one that is
  /// to stop stops all. May be empty.
  std::function<bool()> stop_requested;
  /// Called on rank 0 several times a second with what there is; may be empty.
  std::function<void(const RoundResult&)> has_more;
  /// Called on rank 0 after the first call of each row, with how many there were; may be empty.
  std::function<void(std::int64_t rows)> has_first;
  /// Called on every rank after the first calls; whether to go on, the same on all ranks. May be empty.
  std::function<bool()> after_first;
  std::function<std::int64_t()> clock;  // of this rank, ns; empty: the monotonic clock of its machine
};

/// Whether any rank of `world` is asked to stop: all get the same answer. Collective.
bool agreed_to_stop(Communicator& world, const std::function<bool()>& stop_requested);

/// Times rows in rounds: each round makes every row that is not settled once, in an order shuffled anew from
/// the seed, with a barrier of the world before each row. The first round, in the order of the rows, has
/// their first calls, which are no samples. A row ends when its median is settled, or its `time` is over
/// (then perhaps after fewer than `least_rounds`). Collective over `world`, which the ranks also exchange
/// their times with, between rounds. Source of the method: docs/benchmarking.md.
RoundResult timed_rounds(Communicator& world, const std::vector<TimedRow>& rows, const RoundOptions& options);

}  // namespace commlens::bench
