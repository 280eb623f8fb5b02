#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/summary/iteration_facts.hpp"
#include "commlens/summary/slow_ranks.hpp"
#include "commlens/trace/call_source.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Waits between ranks, derived from their arrivals. The k-th call of the same kind, group (axis and members)
/// and root in an iteration on each member is one collective: an *instance*. A member arrives when it issues
/// its call. With A_i the arrival and E_i the end on member i, and L = max A_i the last arrival,
///
///   wait of i = min(E_i, L) - A_i >= 0,
///
/// 0 for the last. All waits of an instance are caused by the rank that arrived last (the lowest of several).
/// A member that ended before L did not need the last one (a root of a broadcast, a buffered send): its wait
/// is the time it was in its call and so an upper bound. The k-th send of (source, destination) in an
/// iteration and the k-th receive of that pair are one message; the side that arrived first waited, by the
/// same formula.
///
/// The rank that arrived last need not be the slow one: it may have waited for the slow one in another group
/// (see slow_ranks.hpp). Arrivals are compared between ranks, so waits below the error of their clocks
/// (Stragglers::clock_error, if known) are meaningless. Ranks that are threads of one process share a clock.
struct Lateness {
  std::int64_t instances = 0;         // collectives (or messages) it took part in, matched
  std::int64_t last = 0;              // of them it arrived last and others waited
  std::chrono::nanoseconds caused{};  // wait of others for it
  std::chrono::nanoseconds waited{};  // its wait for others
  /// Mean wait caused per instance in which it arrived last; 0 if it never did.
  std::chrono::nanoseconds mean_caused() const;
  friend bool operator==(const Lateness&, const Lateness&) = default;
};

struct RankLateness {
  Rank rank;
  Lateness collectives;
  Lateness messages;  // send and recv
};

/// Waits in the collectives of one kind along one axis in groups of one size.
struct CollectiveWait {
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::int64_t instances = 0;
  std::int64_t incomplete = 0;          // instances that lack the call of a member; not counted otherwise
  std::chrono::nanoseconds waited{};    // sum over instances and members
  std::chrono::nanoseconds in_calls{};  // sum of E_i - A_i, of which `waited` is a part
  std::chrono::nanoseconds longest{};   // wait of one member in one instance
  friend bool operator==(const CollectiveWait&, const CollectiveWait&) = default;
};

/// Waits between the two ends of the messages from one rank to another.
struct PairWait {
  Rank source;
  Rank destination;
  Axis axis = Axis::unknown;
  std::int64_t messages = 0;
  std::int64_t incomplete = 0;  // sends without their receive, or receives without their send
  std::int64_t sender_first = 0;
  std::int64_t receiver_first = 0;
  std::chrono::nanoseconds sender_waited{};
  std::chrono::nanoseconds receiver_waited{};
  friend bool operator==(const PairWait&, const PairWait&) = default;
};

/// One collective, for the list of the worst.
struct WaitInstance {
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  std::vector<Rank> members;
  Iteration iteration = 0;
  std::int64_t index = 0;  // k of the k-th call, from 0
  Rank last;
  std::chrono::nanoseconds last_arrival{};
  std::chrono::nanoseconds waited{};  // sum over members
  Rank longest_waiter;
  std::chrono::nanoseconds longest{};
};

struct Stragglers {
  std::vector<RankLateness> ranks;          // ascending; every rank whose calls have times of their own
  std::vector<CollectiveWait> collectives;  // most waited first
  std::vector<PairWait> pairs;              // by source, then destination
  std::vector<WaitInstance> worst;          // most waited first, at most StragglerOptions::worst, none of 0
  std::int64_t instances = 0;               // collectives that were matched
  std::int64_t messages = 0;                // messages that were matched
  std::int64_t incomplete = 0;              // of both
  // Calls that cannot be matched: of an unknown group, of kind `other`, or without times. Calls of groups of
  // one rank never wait and are ignored.
  std::int64_t without_group = 0;
  std::int64_t unclassified = 0;
  std::int64_t without_times = 0;
  /// Calls with times of streams of several ranks: a time is of one rank's clock.
  std::int64_t of_several_ranks = 0;
  /// Calls of groups whose ranks' calls are in so different an order that too many would have to be held.
  std::int64_t too_far_apart = 0;
  SlowRanks slow;
  /// The largest difference of two ranks' clocks on one machine at the end of the trace: twice the rate error
  /// of the recorder's clock over the time of the trace. Absent if the trace does not describe its clock.
  std::optional<std::chrono::nanoseconds> clock_error;
};

struct StragglerOptions {
  std::optional<std::pair<Iteration, Iteration>> iterations;  // first and last; absent: all, unknown ones too
  std::size_t worst = 10;
};

/// Matches all calls of the trace, in time linear in the calls.
Stragglers stragglers(const Trace& trace, const StragglerOptions& options = {});

/// The same for calls that are not in memory; `iterations` of all of them. Holds the calls that some ranks
/// have made and others not yet, which are few because ranks are read in parallel.
Stragglers stragglers(const CallSource& source, const IterationFacts& iterations,
                      const StragglerOptions& options = {});

}  // namespace commlens
