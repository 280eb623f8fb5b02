#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/app/transport_choice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What decides when a replay issues a call, besides the end of what its rank waits for: the gaps of the
/// trace after what the rank waited for or issued (closed loop), nothing, or the times of the trace (open
/// loop).
enum class ReplayPacing : std::uint8_t { gaps, back_to_back, timed };

/// A replay of the calls of a trace.
struct ReplayRequest {
  std::string trace;      // a native trace, a file that import reads, or a configuration, which is predicted
  std::string framework;  // whose rules predict a configuration; empty: as predict chooses
  Overrides overrides;    // of a configuration; of a trace `ranks` alone, which it must have
  std::optional<IterationRange> iterations;  // default: all; of a configuration the steady one
  ReplayPacing pacing = ReplayPacing::gaps;
  double scale_compute = 1;                  // of gaps, or of the times of the trace
  bool sleeps = false;                       // in a gap, instead of keeping a core busy
  bool skip_other = false;                   // leave out calls that no transport makes
  bool late_waits = false;                   // where ranks would wait for each other, wait later for receives
  std::int64_t repeat = 1;                   // runs; the last one is recorded
  Transport transport = Transport::threads;  // threads or mpi
  std::string mpi;                           // openmpi or mpich; empty: the launcher's
  std::string transports;                    // a table of algorithms (docs/tuning.md); empty: none
  CallProgress progress = CallProgress::automatic;
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // longest wait for one call; 0: any
  std::string output = "commlens-replay";                       // directory of the recording
  /// As TrainRequest::give_up.
  std::function<void(const std::string& reason)> give_up;
  Events events;
};

/// Calls of one op, of all ranks. Original values are absent where the trace has none.
struct ReplayedOp {
  CommKind kind = CommKind::other;
  std::int64_t calls = 0;
  std::optional<std::chrono::nanoseconds> original;  // P50 of durations
  std::optional<std::chrono::nanoseconds> replayed;
  std::optional<std::chrono::nanoseconds> original_exposed;  // sum over ranks
  std::optional<std::chrono::nanoseconds> replayed_exposed;
  std::optional<std::chrono::nanoseconds> lag;  // P50 of how much later than in the original it was issued
  std::optional<std::chrono::nanoseconds> longest_lag;
};

struct ReplayResult {
  bool reports = true;       // false on MPI processes but the first, which has the members below
  bool was_refused = false;  // another process has refused the replay, and its result is the error
  std::string trace;         // as shown
  Source source = Source::recorded;
  std::int64_t ranks = 0;
  std::int64_t calls = 0;  // of all ranks
  ReplayPacing pacing = ReplayPacing::gaps;
  double scale_compute = 1;
  bool has_times = true;  // of the original
  Transport transport = Transport::threads;
  std::int64_t skipped_other = 0;  // calls that were left out
  std::int64_t later_waits = 0;    // calls waited for later than in the trace, lest ranks wait for each other
  std::int64_t shared_sizes = 0;   // calls of which the parts are not known, but their sums
  std::int64_t dropped = 0;        // calls that could not be recorded
  std::vector<std::chrono::nanoseconds> runs;                 // in the order of their making
  std::optional<std::chrono::nanoseconds> original_makespan;  // first issue to last end
  std::chrono::nanoseconds makespan{};
  std::int64_t compared = 0;             // calls but barriers: the larger number of original and replay
  std::int64_t equal = 0;                // of these
  std::optional<Comparison> comparison;  // of original (A) and replay (B); absent if one has no iterations
  std::vector<ReplayedOp> ops;           // those of most calls first
  std::string recording;                 // directory
  bool all_equal() const { return compared == equal; }
};

/// Makes the calls of a trace again, in its order, on its groups, with calls in flight kept in flight;
/// records them, and compares the recording with the original. Under an MPI launcher every process calls it.
/// Fails before anything runs where the trace lacks ranks or counterparts of calls, or its ranks would wait
/// for each other; throws SystemError if a rank fails.
Result<ReplayResult> replay(const ReplayRequest& request);

std::string rendered(const ReplayResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
