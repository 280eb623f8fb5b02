#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/call_state.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A call in whatever state, as opposed to those of a Trace, which are finished.
struct StatedCall {
  OpId op{};
  Iteration iteration = k_unknown_iteration;
  CallState state = CallState::finished;
  std::optional<std::int64_t> started_ns;  // on the clock of its rank
  std::optional<std::int64_t> number;      // of the calls of its group, from 1, where the source says so
  bool is_overwritten = false;             // in a ring: it is one of RingCalls::before
  bool is_on_device = false;               // under way, and a device is known to have begun it
  bool is_counted = true;  // false: the source lacks earlier calls of its kind, so it has no number
};

StatedCall stated_call(OpId op, const StreamRecord& record);

/// The calls of one rank in a file of another tool that says how far each has come.
struct StatedTrace {
  Trace trace;  // descriptions and provenance
  Rank rank;
  std::vector<StatedCall> calls;  // in issue order
};

/// What is known of a rank besides its calls.
struct RankState {
  Rank rank;
  bool is_recorded = true;                            // false: nothing of it is there
  std::optional<RankProcess> process;                 // absent in older recordings
  std::string boot;                                   // the same on ranks of one machine since its last start
  bool has_begun_to_end = false;                      // it makes no more calls (MPI_Finalize)
  bool has_ended = false;                             // its recording was closed
  std::int64_t lost = 0;                              // of its calls, those that are not known
  std::optional<std::int64_t> pause_until_unix_ns{};  // it announced a pause, by its own wall clock
};

/// The last calls of a rank whose earlier ones were overwritten.
struct RingCalls {
  /// How many calls before `calls` there were, cancelled ones left out, by an op of each OpLanes lane.
  std::vector<std::pair<OpId, std::int64_t>> before;
  /// In issue order. The first ones may be among those before: they were under way when they were
  /// overwritten, and still are; `number` says which of their lane they are.
  std::vector<StatedCall> calls;
  std::int64_t lost = 0;  // calls that are neither
};

/// The calls of all ranks of a recording in the state in which they are now: of a job that has ended, was
/// killed, or goes on. Files are read only; nothing is locked.
class JobStates {
 public:
  /// Opens a native trace directory. Fails where it is none, and where it is no recording: other traces have
  /// finished calls alone.
  static Result<JobStates> open(const std::filesystem::path& directory);
  JobStates(JobStates&&) noexcept;
  JobStates& operator=(JobStates&&) noexcept;
  JobStates(const JobStates&) = delete;
  JobStates& operator=(const JobStates&) = delete;
  ~JobStates();

  /// Descriptions and provenance, no calls.
  const Trace& tables() const;
  /// Ascending by rank.
  const std::vector<RankState>& ranks() const;
  /// Whether the recording was concluded: its command has ended.
  bool is_concluded() const;
  /// Of a rank in a ring that has gone round; nothing of others. What `lost` says is not in ranks().
  std::optional<RingCalls> ring(std::size_t row) const;
  /// Gives the calls of a row of ranks() in issue order, of a ring those that are there.
  void visit(std::size_t row, const std::function<void(const StatedCall&)>& sink) const;

 private:
  struct State;
  explicit JobStates(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace commlens
