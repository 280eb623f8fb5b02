#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/comm/axis.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/live/duration_histogram.hpp"
#include "commlens/live/hang_verdict.hpp"
#include "commlens/live/job_progress.hpp"
#include "commlens/live/process_look.hpp"
#include "commlens/live/wait_graph.hpp"
#include "commlens/live/work_blocks.hpp"
#include "commlens/trace/rank_process.hpp"

// What one poll of a FolderFollower yields: the state of a job now. Plain values; nothing refers to the
// follower. Counters only grow until `generation` changes.
namespace commlens {

/// How the job whose folder is followed stands.
enum class LiveState : std::uint8_t {
  absent,   // there is no folder, or nothing in it yet
  running,  // a rank's process is there, or its files grew lately
  ended,    // all ranks closed their recordings
  stopped,  // some did not, and their processes are gone or the command has ended
  unknown,  // it cannot be known from this machine
  removed   // the folder was there and is gone
};
std::string_view name_of(LiveState state);
/// No more calls will come: it has ended, or was stopped.
bool is_at_end(LiveState state);

/// What a rank does.
enum class LiveRankState : std::uint8_t {
  absent,     // it has no files yet
  computing,  // in no call
  in_call,    // in a call for which it waits for nobody known
  waiting,    // … in which other ranks are missing
  stuck,      // … and the job was found hung
  finished,   // it closed its recording
  dead,       // its process is gone, and it did not
  unknown     // nothing can be read of it (see error)
};
std::string_view name_of(LiveRankState state);

/// Sums of completed calls, of all ranks or of one.
struct LiveSums {
  std::int64_t calls = 0;
  Bytes message;                    // docs/volumes.md
  Bytes wire;                       // sent by all ranks together (aggregate); of one rank: its part
  std::chrono::nanoseconds time{};  // of the calls, added
};

/// Completed calls of one op along one axis in groups of one size, of all ranks: a row of `summary`.
struct LiveOp {
  CommKind kind = CommKind::other;
  std::string name;  // kind `other` only: the function
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;  // 0: not known
  LiveSums sums;                // since the job began
  bool knows_wire = true;
  Bytes smallest;  // message of one call
  Bytes largest;
  DurationHistogram durations;  // since the job began
  /// Of `sums`, calls that are the first of a rank on their communicator (a message: on its pair) and have a
  /// time.
  std::int64_t first_calls = 0;
  std::chrono::nanoseconds first_time{};
  LiveSums recent;  // in JobView::window
  /// As in SummaryRow, of the window; absent without calls, bytes or times there.
  std::optional<double> bus_bandwidth_bytes_per_s;
};

/// A call that a rank is inside of.
struct LiveCall {
  std::string op;           // "all_reduce"; of kind `other` its function
  std::string name;         // "MPI_Allreduce"; empty where the source has none
  std::int64_t number = 0;  // of those of its communicator or pair; 0: not known
  Bytes message;
  std::string site;
  std::chrono::nanoseconds
      open_for{};  // by the rank's clock where it can be read here, else since it was seen
};

struct LiveRank {
  Rank rank;
  std::optional<RankProcess> process;  // host, pid, …; absent until its tables are read
  ProcessState process_state = ProcessState::unknown;
  LiveRankState state = LiveRankState::absent;
  std::optional<LiveCall> call;               // the one it waits in, or the first under way
  std::int64_t open_calls = 0;                // under way, requests among them
  Iteration iteration = k_unknown_iteration;  // of its last call
  std::int64_t entered = 0;                   // calls, whatever their end
  LiveSums sums;                              // its completed calls
  LiveSums recent;                            // … in the window
  std::chrono::nanoseconds in_calls{};        // RankTime (summary/rank_time.hpp), without computing in calls
  std::chrono::nanoseconds between_calls{};
  std::chrono::nanoseconds still_for{};  // the follower's own stopwatch: since it entered or left a call
  std::optional<std::int64_t> last_progress_unix_ns;  // wall clock here, when that was seen
  /// Share of the latest blocks of calls in which it was slow (summary/slow_ranks.hpp; clocks are not
  /// compared), 0 to 1; absent until there are blocks.
  std::optional<double> late_score;
  std::int64_t late_members = 0;  // of the communicator by which it was judged
  std::int64_t lost = 0;          // of its calls, those that are not known
  std::int64_t lost_records = 0;  // of them, those that were lost while the rank ran
  std::string error;              // why nothing more is read of it; empty: all is well
  bool is_silent = false;         // its node says nothing now
};

/// What is wrong with the job now, once it has been so for long enough.
struct LiveAlert {
  std::string id;    // "hang-1": the same as long as it lasts
  std::string kind;  // of k_alert_kinds
  std::string text;  // a sentence; of a hang it is made where it is shown
  HangVerdict verdict = HangVerdict::none;
  std::vector<Rank> culprits;
  std::int64_t waiting = 0;  // ranks that wait
  std::chrono::nanoseconds still_for{};
  std::int64_t since_unix_ns = 0;
};
constexpr std::string_view k_alert_hang = "hang";
constexpr std::string_view k_alert_volume = "volume";  // it sends other messages than predicted
constexpr std::string_view k_alert_slower = "slower";  // its calls take longer than in an earlier recording
constexpr std::string_view k_alert_straggler = "straggler";  // a rank is slow itself, and others wait for it
constexpr std::string_view k_alert_cold = "cold";            // communicators are made again and again
constexpr std::string_view k_alert_lost = "lost";            // calls are not recorded, or cannot be read
constexpr std::string_view k_alert_kinds[] = {k_alert_hang,      k_alert_volume, k_alert_slower,
                                              k_alert_straggler, k_alert_cold,   k_alert_lost};

/// Message bytes of an iteration along an axis by an op, predicted and recorded, of all ranks.
struct LiveDeviation {
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  Bytes predicted;
  Bytes recorded;
};

/// What the job sends beside what its configuration says: whole iterations, now and then, call by call.
struct LivePrediction {
  std::string source;           // "case.yaml: predicted by the rules of …"; empty until it is predicted
  std::string error;            // why nothing is compared now; empty: all is well
  Iteration iteration = -1;     // the last one that was compared; -1: none yet, or it has no number
  std::int64_t iterations = 0;  // that were compared
  std::int64_t exact = 0;       // calls of all of them (compare/compare.hpp)
  std::int64_t size = 0;
  std::int64_t missing = 0;
  std::int64_t extra = 0;
  std::vector<LiveDeviation> deviations;  // of the last one, most different bytes first
  std::int64_t in_a_row = 0;              // the latest ones that differ alike
};

/// Calls of one op along an axis in a phase, in an earlier recording and now: medians over iterations.
struct LiveSlowdown {
  std::string op;  // "step" for whole iterations; of kind `other` the function
  std::string axis;
  std::string phase;
  std::chrono::nanoseconds before{};  // above 0
  std::chrono::nanoseconds now{};
  double p_adjusted = 1;
  bool is_slower = false;
  double ratio() const { return static_cast<double>(now.count()) / static_cast<double>(before.count()); }
};

/// How long the calls of a job take beside those of an earlier recording.
struct LiveBaseline {
  std::string source;              // the earlier recording
  std::string error;               // why nothing is compared now; empty: all is well
  std::int64_t tests = 0;          // made so far
  std::int64_t iterations = 0;     // that the last test is of
  std::vector<LiveSlowdown> rows;  // of the last test: those that take most time first
};

/// Who waits for whom now, whether for long or not.
struct LiveHang {
  JobProgress
      job;  // ranks as in JobView::ranks, then members that nothing is recorded of (ascending together)
  WaitGraph graph;
  HangFinding finding;
  std::vector<ProcessState> processes;    // of job.ranks
  std::chrono::nanoseconds still_for{};   // nothing of it has moved for so long
  std::chrono::nanoseconds limit{};       // from which it counts as hung
  std::chrono::nanoseconds pause_left{};  // announced by a rank: until it is over the job is not hung
  bool is_confirmed = false;              // still_for has reached the limit
  /// Ranks of some nodes of several, as far as is known: a wait for ranks elsewhere is not confirmed.
  bool is_part = false;
};

/// How the iterations go, by the marks of the program; without marks, `iteration` is unknown.
struct LiveSteps {
  Iteration iteration = k_unknown_iteration;       // the highest that any rank has begun
  std::int64_t completed = 0;                      // of the rank that leads: the lowest that marks any
  std::optional<std::chrono::nanoseconds> last;    // length of its last whole iteration
  std::optional<std::chrono::nanoseconds> median;  // of its last 32
  DurationHistogram durations;
};

/// The nodes whose states are followed together.
struct LiveNodes {
  std::int64_t told = 0;         // their states are of now, or of a job that has ended
  std::int64_t silent = 0;       // no new state came for long
  std::int64_t unreachable = 0;  // that cannot be read now
};

/// The follower itself.
struct LiveWatcher {
  std::int64_t polls = 0;
  std::int64_t records = 0;           // read so far
  std::int64_t unread = 0;            // written, and not read yet: waiting for their pages or their tables
  std::chrono::nanoseconds took{};    // the last poll
  std::chrono::nanoseconds busy{};    // all polls
  std::int64_t unfollowed_calls = 0;  // under way beyond the number that is followed
};

struct JobView {
  std::string name;    // of the folder, without those above
  std::string job_id;  // of the batch system; else the name
  LiveState state = LiveState::absent;
  std::int64_t generation = 0;  // counts recordings: another one replaced the first
  std::string error;            // why nothing is read of the folder or its manifest now; empty: all is well
  std::string producer;
  std::string description;
  std::vector<LiveRank> ranks;  // ascending
  std::vector<LiveOp> ops;      // most message bytes first
  LiveSums totals;
  LiveSums recent;                    // in the window
  std::chrono::nanoseconds window{};  // length of the sliding window, up to k_live_window
  LiveSteps steps;
  LiveHang hang;
  std::optional<LiveBaseline> baseline;      // where one was asked for
  std::optional<LivePrediction> prediction;  // where one was asked for
  std::vector<LiveAlert> alerts;             // that hold now
  std::int64_t alerts_fired = 0;             // since the follower began
  std::map<std::string, std::int64_t> lost;  // calls that are not known, by reason (Provenance)
  std::optional<LiveNodes> nodes;            // where they are followed
  std::vector<SpanningWork> spanning;        // of the widest communicators that have members elsewhere
  LiveWatcher watcher;
  bool is_hung() const;
};

constexpr std::chrono::seconds k_live_window(10);

}  // namespace commlens
