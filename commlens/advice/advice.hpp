#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/units.hpp"

namespace commlens {

/// Calls and bytes of one steady iteration. Bytes per docs/volumes.md; a receive counts as a call and as a
/// message.
struct StepVolume {
  std::int64_t calls = 0;
  std::int64_t small_calls = 0;  // messages below AdviceOptions::small_limit, barriers skipped
  Bytes message;
  Bytes wire;
  Bytes wire_inter_node;  // part of `wire` that leaves the node; 0 without ranks_per_node
  friend bool operator==(const StepVolume&, const StepVolume&) = default;
};

/// The cost of a job per steady iteration, as predicted by its framework's rules.
struct StepCost {
  StepVolume per_rank;   // of the rank that sends the most wire bytes (then: makes the most calls)
  StepVolume all_ranks;  // summed over the job
  Bytes memory;       // of the fullest rank: frameworks/memory.hpp and the buffers of docs/advice.md#memory
  double bubble = 0;  // share of the step in which a pipeline stage has nothing to do: (p-1)/(v m + p-1)
  friend bool operator==(const StepCost&, const StepCost&) = default;
};

/// One recommended change of a setting, and its effect. Effects are predicted by planning the job again with
/// only this setting changed, so the savings of several recommendations do not add up.
struct Recommendation {
  std::string id;       // "persistence_threshold": stable, for programs
  std::string title;    // "Gather small parameters with their layers"
  std::string reason;   // one or two sentences with the numbers
  std::string flag;     // of commlens: "--persistence-threshold 0"; empty: it has none
  std::string setting;  // in the job's framework, and its section
  StepCost before;
  StepCost after;
  bool required = false;  // the unchanged job does not fit into the memory
  bool verified = true;   // `after` uses no unmeasured rule that `before` does not use
  std::optional<std::chrono::nanoseconds> time_saved;  // per iteration, an estimate from the trace's times
  std::string time_source;                             // basis of the estimate; empty without one

  /// Savings of the rank that sends most; negative: the change adds bytes.
  std::int64_t calls_saved() const { return before.per_rank.calls - after.per_rank.calls; }
  Bytes message_saved() const { return before.per_rank.message - after.per_rank.message; }
  Bytes wire_saved() const { return before.per_rank.wire - after.per_rank.wire; }
  Bytes inter_node_saved() const { return before.per_rank.wire_inter_node - after.per_rank.wire_inter_node; }
  /// Of the fullest rank; positive: the change needs more memory.
  Bytes memory_added() const { return after.memory - before.memory; }
};

/// Messages below a size limit, and their cost.
struct SmallMessages {
  Bytes limit;
  std::int64_t calls = 0;                        // of all ranks, barriers skipped
  std::int64_t all_calls = 0;                    // of any size
  std::optional<std::chrono::nanoseconds> time;  // of the small ones; only from a trace with times
  std::optional<std::chrono::nanoseconds> all_time;
  /// Of the calls' time, or of the number of calls when there are no times.
  double share() const;
};

/// The advice on a job.
struct Advice {
  StepCost cost;                            // of the unchanged job
  SmallMessages small;                      // of the trace's steady iterations, or of the predicted one
  std::vector<Recommendation> recommended;  // required ones first, then by time, bytes and calls saved
  std::vector<std::string> not_advised;  // studied settings and why they are not recommended, one line each
  std::vector<std::string> not_judged;   // settings that could not be studied, and the missing input
};

/// Inputs of the advice besides the job.
struct AdviceOptions {
  std::int64_t ranks_per_node = 0;  // 0: not known
  std::optional<Bytes> memory;      // of one GPU
  double small_share = 0.01;        // small messages below this share of the calls' cost are ignored
  double least_saving = 0.01;    // a change that saves a smaller share of calls, bytes or time is not named
  Bytes small_limit{64 * 1024};  // "small": latency-bound, as in arXiv 2408.10197
};

}  // namespace commlens
