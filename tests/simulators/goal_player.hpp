#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace commlens::test {

/// The machine that a schedule is played on, in ticks of any length.
struct GoalMachine {
  std::int64_t overhead = 1;                   // of a processor, for each message sent or received
  std::int64_t latency = 10;                   // from the end of a send to the arrival
  std::int64_t eager = std::int64_t{1} << 40;  // longer messages end at the sender when they are received
};

/// The outcome of simulating a schedule.
struct PlayedGoal {
  std::string error;  // why it is no schedule; empty
  std::int64_t operations = 0;
  std::int64_t unstarted = 0;  // operations that never completed
  std::int64_t unended = 0;
  std::int64_t left_receives =
      0;  // posted, and nothing came: LogGOPSim's "receive queue contains … elements"
  std::int64_t left_messages = 0;  // messages without a receive
  std::int64_t wrong_sizes = 0;    // messages received as longer or shorter than they were sent
  std::vector<std::int64_t> sent;  // bytes, by rank
  std::int64_t end = 0;            // when the last operation ended

  bool is_complete() const {
    return error.empty() && unstarted == 0 && unended == 0 && left_receives == 0 && left_messages == 0 &&
           wrong_sizes == 0;
  }
  /// All of it in one line, for people.
  std::string text() const;
};

/// Plays a schedule as the grammar and the reference simulator have it (T. Hoefler, T. Schneider, A.
/// Lumsdaine, "LogGOPSim", LSAP 2010; txt2bin.re): labels before their use; `requires` waits for an end,
/// `irequires` for a start; a send takes its processor for the overhead, a calc for its length, one at a
/// time; a receive is posted at once and takes the first message of its source and tag.
PlayedGoal play_goal(const std::string& text, const GoalMachine& machine = {});

}  // namespace commlens::test
