#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// Calls in issue order, with their times where all of them have some.
struct TimedCalls {
  std::vector<CommEvent> events;
  std::vector<Times> times;
};

/// The calls of the latest iterations of one rank, by the marks of its program, in issue order; of a program
/// that marks none, its latest calls. A call is named by its slot: its place among all calls of the rank.
class LatestIterations {
 public:
  explicit LatestIterations(bool keeps_times = true) : keeps_times_(keeps_times) {}

  /// `times`: of a call that is over, where they are known.
  void add(std::uint64_t slot, const CommEvent& event, const std::optional<Times>& times);
  /// A call is over, and perhaps turned out to be another one.
  void finish(Iteration iteration, std::uint64_t slot, OpId op, const std::optional<Times>& times);
  /// … to be none: it failed or was cancelled.
  void withdraw(Iteration iteration, std::uint64_t slot);
  /// Calls after the latest one are not known: of its iteration, of the next one that is, or between them.
  void lose();
  /// Calls are not known of an iteration, or of any after it.
  void lose_from(Iteration iteration);

  /// The calls of an iteration, none where it has none; absent where some are not known, there are more than
  /// k_most_calls, or it is too long ago.
  std::optional<TimedCalls> of(Iteration iteration) const;

  /// The latest calls outside of iterations, k_most_outside at most, all after the last one that is not
  /// known.
  std::vector<CommEvent> outside() const;

  static constexpr std::size_t k_most_calls = 100'000;  // of an iteration
  static constexpr std::size_t k_most_outside = 32'768;
  /// Ranks wait for one another once an iteration or so: none is further ahead.
  static constexpr std::size_t k_most_iterations = 4;

 private:
  struct Call {
    std::uint64_t slot = 0;
    OpId op{};
    std::int32_t micro_batch = k_no_micro_batch;
  };
  struct OfIteration {
    Iteration iteration = k_unknown_iteration;
    bool is_whole = true;
    std::vector<Call> calls;
    std::vector<std::optional<Times>> times;  // of the calls, where they are kept

    void drop();
  };
  OfIteration& begin(Iteration iteration);
  OfIteration* find(Iteration iteration);

  bool keeps_times_;
  std::deque<OfIteration> iterations_;  // ascending
  std::deque<Call> outside_;
  bool has_lost_ = false;  // calls, since the latest one of an iteration
};

}  // namespace commlens
