#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// Which calls of a trace are replayed.
struct ReplaySelection {
  std::optional<std::pair<Iteration, Iteration>> iterations;  // first and last; absent: all
  bool skip_other = false;  // leave out calls of kind `other` that no transport makes
  /// Where ranks would wait for each other, wait later for receives and collective calls. Always done for
  /// predicted traces without times, which do not say what is waited for.
  bool late_waits = false;
};

/// A communicator of a replay. Messages of one communicator of the original (of one axis, where it has no
/// number) go over one of all ranks that send or receive them.
struct ReplayGroup {
  std::vector<Rank> members;  // in group order
  Axis axis;
  CommunicatorId communicator = k_no_communicator;
  bool has_messages = false;  // else collectives
  std::size_t split = 0;      // number of the split of the world that makes it
  std::int64_t color = 0;     // in that split
};

/// A call that a rank makes at least once.
struct ReplayOp {
  CommCall call;  // without buffers
  std::uint32_t group = 0;
  Phase phase = Phase::other;
  bool may_block = true;  // the trace does not say that the call returned before it was complete
};

/// One call of a rank.
struct ReplayCall {
  std::uint32_t row = 0;      // of the rank's stream in the trace
  std::uint32_t op = 0;       // of its program
  std::uint32_t meeting = 0;  // which the plan has: calls of several ranks that belong together
  Iteration iteration = k_unknown_iteration;
  std::int32_t micro_batch = k_no_micro_batch;
  bool blocks = false;        // made with Communicator::run
  std::int64_t input_at = 0;  // bytes into the rank's pool
  std::int64_t output_at = 0;
  std::chrono::nanoseconds issued{};  // since the begin of the trace; zero without times
};

/// What a rank does next, once it has been busy for a while.
struct ReplayStep {
  enum class Kind : std::uint8_t { issue, wait };
  Kind kind = Kind::issue;
  std::uint32_t call = 0;  // of its program
  std::chrono::nanoseconds busy{};
};

/// What one rank does.
struct RankProgram {
  std::vector<ReplayOp> ops;
  std::vector<ReplayCall> calls;  // in the order of their issue
  std::vector<ReplayStep> steps;
  Bytes pool;  // of buffers: the largest set that is in use at once
};

/// Calls that belong together: the k-th of all members of a group, or a message and its receive.
struct ReplayMeeting {
  std::uint32_t group = 0;
  std::int32_t source = -1;  // of a message: global ranks; -1: all members of the group
  std::int32_t destination = -1;
};

/// How a trace is replayed by its ranks. Refers to the trace for its tags, and its ops to its parts.
struct ReplayPlan {
  ReplayPlan() = default;
  ReplayPlan(const ReplayPlan&) = delete;
  ReplayPlan& operator=(const ReplayPlan&) = delete;
  ReplayPlan(ReplayPlan&&) = default;
  ReplayPlan& operator=(ReplayPlan&&) = default;

  std::vector<RankProgram> ranks;
  std::vector<ReplayGroup> groups;
  std::size_t splits = 0;
  std::vector<ReplayMeeting> meetings;
  std::deque<std::vector<Elements>> parts;  // that ops refer to
  bool has_times = false;                   // else calls follow one another without gaps
  std::int64_t skipped_other = 0;           // calls of all ranks
  std::int64_t later_waits = 0;   // that come later than in the trace, or ranks would wait for each other
  std::int64_t shared_sizes = 0;  // calls of which the trace has the sums of parts alone

  std::int64_t calls() const;
};

/// Plans the replay of a trace, and checks it: every call has its counterparts, in sizes that belong
/// together, and no ranks wait for each other. Fails otherwise, and where the trace lacks what a call needs.
/// Where a trace has times, a rank waits for a call before it issues the first one that it issued after the
/// call had finished; without, at once, but where settle_waits() (replay_check.hpp) moves a wait. The calls
/// of a plan are in the order of issue of the trace, those of one rank that were issued at once in the
/// trace's.
Result<ReplayPlan> replay_plan(const Trace& trace, const ReplaySelection& selection);

}  // namespace commlens::bench
