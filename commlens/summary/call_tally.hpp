#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/summary/iteration_set.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/summary/time_stats.hpp"
#include "commlens/trace/call_blocks.hpp"

namespace commlens {

/// The key of a row of calls.
struct RowKey {
  CommKind kind = CommKind::other;
  NameId name{};
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::optional<Phase> phase;  // with SummaryOptions::by_phase
  std::optional<Bytes> size;   // of one call's message, with SummaryOptions::by_size
  std::optional<NameId> site;  // with SummaryOptions::by_site
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

/// The stage of an iteration in a rank's run (ColdStart).
enum class Stage : std::uint8_t { unknown, init, cold, warm };

/// Calls of one stage or, with SummaryOptions::by_iteration, of one iteration in it.
struct Slice {
  Stage stage = Stage::unknown;
  std::optional<Iteration> iteration;
  friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// Sums of the calls of one row in one slice, over all ranks.
struct RowTally {
  std::int64_t calls = 0;
  Bytes smallest{INT64_MAX};
  Bytes largest;
  Bytes message;                                                    // in the trace's accounting
  Bytes moved;                                                      // as defined in docs/volumes.md
  Bytes timed_moved;                                                // of the calls that have times
  std::map<std::pair<std::int64_t, std::int64_t>, Bytes> crossing;  // share that leaves the node -> moved
  DurationStats time;
  void merge(const RowTally& other);
};

/// Sums of one op over all ranks and slices.
struct OpTally {
  std::int64_t calls = 0;
  std::int64_t timed_calls = 0;
  std::chrono::nanoseconds time{};
  std::int64_t first_timed = 0;  // first calls of ranks on their groups that have a time …
  std::chrono::nanoseconds first_time{};
};

/// The properties of an op that a summary needs, looked up once.
struct OpFacts {
  Bytes message;  // as in RowTally
  Bytes moved;
  std::uint32_t row = 0;
  GroupId group{};
};

struct FirstTally {
  std::int64_t calls = 0;
  DurationStats time;
};

/// Sums calls. The sums of consecutive calls of one stream and slice are kept per op in a dense table, and
/// added to the rows at their end.
class CallTally {
 public:
  explicit CallTally(SummaryOptions options) : options_(std::move(options)) {}

  void add(const CallBlock& block);
  /// After the last block; `tables` are those of the blocks, which may have moved.
  void finish(const Trace& tables);

  const SummaryOptions& options() const { return options_; }
  const std::vector<RowKey>& keys() const { return keys_; }
  using RowTallies = std::map<std::uint32_t, RowTally>;  // by place in keys(); those that have calls
  const std::map<Slice, RowTallies>& slices() const { return slices_; }
  const std::vector<OpTally>& ops() const { return ops_; }
  const std::vector<OpFacts>& facts() const { return facts_; }
  const std::map<RowKey, FirstTally>& first_calls() const { return first_calls_; }
  const IterationSet& iterations() const { return iterations_; }
  const IterationSet& cold_iterations() const { return cold_iterations_; }
  const IterationSet& warm_iterations() const { return warm_iterations_; }
  std::int64_t ranks() const { return ranks_; }
  std::int64_t cold_ranks() const { return cold_ranks_; }

 private:
  /// Calls of an op since the last fold, of one rank.
  struct Cell {
    std::int64_t calls = 0;
    std::int64_t timed = 0;
    std::int64_t time = 0;
    RowTally* row = nullptr;
  };
  /// Consecutive calls of one iteration, and their times: none, or one each.
  struct CallRun {
    std::span<const CommEvent> events;
    std::span<const Times> times;
  };

  void begin_stream(const CallBlock& block);
  void end_stream();
  void learn_ops(const Trace& tables);
  OpFacts facts_of(const Trace& tables, const CommOp& op);
  bool is_wanted(Iteration iteration) const;
  void add_run(const Trace& tables, const CallRun& run);
  void enter(Iteration iteration);
  void enter_slice(Slice slice);
  void count(const Trace& tables, const CallRun& run);
  void meet(const Trace& tables, OpId op, const Times* times);
  void mark_groups(std::span<const CommEvent> events);
  void fold();
  void limit_memory();
  void fold_crossing(RowTally& row, std::size_t op, Bytes moved);

  SummaryOptions options_;
  std::vector<RowKey> keys_;
  std::map<RowKey, std::uint32_t> key_rows_;
  std::map<Slice, RowTallies> slices_;
  std::vector<OpTally> ops_;
  std::vector<OpFacts> facts_;
  std::map<RowKey, FirstTally> first_calls_;
  IterationSet iterations_;
  IterationSet cold_iterations_;
  IterationSet warm_iterations_;
  std::int64_t ranks_ = 0;
  std::int64_t cold_ranks_ = 0;
  std::int64_t added_durations_ = 0;  // since limit_memory looked

  // Of the stream that is being added.
  std::optional<std::size_t> stream_;
  const Trace* tables_ = nullptr;
  bool is_chosen_ = false;
  bool has_calls_ = false;
  RankRange members_;
  std::optional<Iteration> cold_;  // its cold iteration
  bool has_cold_calls_ = false;
  std::vector<bool> met_groups_;  // called already
  std::map<std::pair<GroupId, CommKind>, Fraction> shares_;

  // Of the slice in it.
  std::optional<Iteration> iteration_;
  std::optional<Slice> slice_;
  RowTallies* rows_ = nullptr;
  std::vector<Cell> cells_;    // by op
  std::vector<OpId> touched_;  // ops whose cell is in use
};

}  // namespace commlens
