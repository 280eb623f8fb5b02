#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/summary/cold_start.hpp"
#include "commlens/summary/coverage.hpp"
#include "commlens/summary/histogram.hpp"
#include "commlens/summary/iteration_set.hpp"
#include "commlens/summary/time_stats.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/call_source.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

struct SummaryOptions {
  std::optional<std::pair<Iteration, Iteration>> iterations;  // first and last; absent: all, unknown ones too
  std::optional<Rank> rank;                                   // only this rank's calls
  std::int64_t ranks_per_node = 0;                            // 0: do not split wire bytes by node
  bool by_phase = false;
  bool by_iteration = false;
  bool by_size = false;          // of single messages
  bool by_site = false;          // where calls were made
  Bytes small_limit{64 * 1024};  // messages below are small
};

/// Everything of one op along one axis in groups of one size, summed over all ranks (or the one chosen).
struct SummaryRow {
  CommKind kind = CommKind::other;
  NameId name{};  // kind `other` only
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::optional<Phase> phase;          // with by_phase
  std::optional<Iteration> iteration;  // with by_iteration; k_unknown_iteration where the trace does not say
  std::optional<NameId> site;          // with by_site; row 0 where the trace does not say
  std::int64_t calls = 0;
  Bytes smallest;  // message of one call; with by_size that of every call
  Bytes largest;
  Bytes message;                  // of all calls; in a comms logger's trace, as it prints them (Accounting)
  Bytes wire;                     // sent by all ranks together (aggregate), rounded down once
  Bytes wire_inter_node;          // the part of it that leaves the node; 0 without ranks_per_node
  std::optional<TimeStats> time;  // absent when no call has a time
  /// The bandwidth of a rank in these calls: message bytes of the calls that have times, divided by the sum
  /// of their durations (not the mean of the calls' bandwidths). Absent without times or bytes, for kind
  /// `other`, and in groups of one rank.
  std::optional<BytesPerSecond> algorithm_bandwidth;
  /// That times the bus factor of nccl-tests (comm/volume.hpp): comparable with the bandwidth of a link.
  /// Absent if the group's size is unknown.
  std::optional<BytesPerSecond> bus_bandwidth;

  /// Whether `wire` is known: not for ops of kind `other`; on groups of unknown size only for messages, which
  /// are on the wire once.
  bool knows_wire() const {
    return group_size == 1 || (kind != CommKind::other && (group_size > 0 || wire != Bytes{}));
  }
  /// The same for `wire_inter_node`, if ranks_per_node is given: messages on groups of unknown size are on
  /// the wire, but their destination is not known.
  bool knows_wire_inter_node() const { return knows_wire() && group_size > 0; }
};

/// The sums of the calls of a trace, or of a part of it. Analyses that relate calls to each other are in
/// overlap.hpp, stragglers.hpp and bubble.hpp.
struct Summary {
  /// The op, axis and size with most message bytes first; its rows by iteration, then phase.
  std::vector<SummaryRow> rows;
  SizeHistogram sizes;
  ColdStart cold;
  Coverage coverage;
  IterationSet iterations;  // that were counted, without unknown ones
  std::int64_t ranks = 0;   // that have calls among them
  std::int64_t calls = 0;   // all ranks
  Bytes message;
  Bytes wire;                           // aggregate
  std::optional<TimeStats> time;        // of all calls
  std::int64_t calls_without_wire = 0;  // of rows without wire bytes; not in `wire`
  /// Ranks, with calls or without, that have compute intervals, and the total length of these.
  std::int64_t computing_ranks = 0;
  std::chrono::nanoseconds computing{};
};

/// Summarises a sequence of calls. Memory grows with the rows (at most k_exact_samples durations each), ops
/// and iterations, not with the calls.
class SummaryBuilder {
 public:
  explicit SummaryBuilder(const SummaryOptions& options);
  ~SummaryBuilder();
  SummaryBuilder(const SummaryBuilder&) = delete;
  SummaryBuilder& operator=(const SummaryBuilder&) = delete;

  /// Adds blocks of one trace, as passed by visit_calls.
  void add(const CallBlock& block);
  /// Returns the summary; `tables` as left by visit_calls. Call once.
  Summary finish(const Trace& tables);

 private:
  std::unique_ptr<class CallTally> tally_;
};

/// Adds when the ranks computed.
void add_computing(const CallSource& source, const SummaryOptions& options, Summary& summary);

Summary summarise(const Trace& trace, const SummaryOptions& options = {});

/// Rows alone.
std::vector<SummaryRow> summary_rows(const Trace& trace, const SummaryOptions& options = {});

}  // namespace commlens
