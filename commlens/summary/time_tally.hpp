#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "commlens/summary/bubble.hpp"
#include "commlens/summary/iteration_set.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/overlap_totals.hpp"
#include "commlens/summary/running_union.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/call_source.hpp"

namespace commlens {

/// The results of overlap_totals() and bubble_totals() for the rows of a trace.
struct TimeTotals {
  OverlapTotals overlap;
  BubbleTotals bubbles;
};

/// The calls of one rank (or class) without compute times, summed iteration by iteration while they are read.
class RankTimeTally {
 public:
  enum class Era : std::uint8_t { init, training, unknown };
  static constexpr std::size_t k_eras = 3;
  using OpKey = std::pair<CommKind, NameId>;
  using GroupKind = std::tuple<Axis, bool, std::int64_t>;  // whether of sends and receives; members
  /// Sums of an era; the spans of ops and groups are left at 0.
  struct Sums {
    OverlapTotal all;
    std::map<OpKey, OverlapTotal> ops;
    std::map<GroupKind, OverlapTotal> groups;
  };

  /// `pipeline_ops`: of `tables`, both outlive it.
  RankTimeTally(const Trace& tables, RankRange ranks, const std::vector<bool>& pipeline_ops);

  void add(const CommEvent& event, const Times& times);
  /// After the last call. Times of one rank.
  void finish();

  /// False if the order of the calls makes the sums inexact.
  bool is_exact() const;
  const RankRange& ranks() const { return ranks_; }
  const std::array<std::optional<Sums>, k_eras>& sums() const { return sums_; }
  const std::optional<BubbleTotal>& bubble() const { return bubble_; }

 private:
  /// Sums over the iterations of an era.
  struct EraTotal {
    std::int64_t iterations = 0;
    std::int64_t calls = 0;
    std::int64_t sum_ns = 0;
    std::int64_t total_ns = 0;
  };
  /// A subset of the calls: of the current iteration, and of previous ones.
  struct Part {
    std::int64_t calls = 0;
    std::int64_t sum_ns = 0;
    RunningUnion intervals;
    std::array<EraTotal, k_eras> totals;
    void add(const Interval& interval);
    /// At the end of an iteration; the time the calls took in it.
    std::chrono::nanoseconds close(Era era);
    /// An iteration of one call.
    void add_iteration(Era era, const Interval& only);
    OverlapTotal total(Era era) const;
    bool has(Era era) const { return totals[static_cast<std::size_t>(era)].calls > 0; }
  };
  struct Slots {
    std::uint32_t op = 0;  // places in ops_ …
    std::uint32_t group = 0;
    bool is_known = false;
  };

  Slots& slots_of(OpId id);
  void put(OpId id, const Interval& interval);
  void close_iteration();
  void close_lone(OpId id, Era era);
  void close_parts(Era era, std::chrono::nanoseconds span);
  Sums sums_of(Era era) const;

  const Trace& tables_;
  RankRange ranks_;
  const std::vector<bool>& pipeline_ops_;
  std::vector<Slots> slots_;  // by op
  std::vector<std::pair<OpKey, Part>> ops_;
  std::vector<std::pair<std::pair<GroupKind, std::vector<Rank>>, Part>> groups_;
  std::vector<std::uint32_t> met_ops_;  // that have calls in the iteration
  std::vector<std::uint32_t> met_groups_;
  Part all_;
  Part pipeline_;
  std::optional<Iteration> iteration_;
  IterationSet closed_;
  std::optional<OpId> lone_;  // the only call of the iteration so far, which is in `span_` only
  Interval span_;
  std::array<std::int64_t, k_eras> spans_ns_{};
  bool is_exact_ = true;
  std::array<std::optional<Sums>, k_eras> sums_;
  std::optional<BubbleTotal> bubble_;
};

/// Sums of an era over ranks.
struct EraSums {
  std::map<RankRange, OverlapTotal> ranks;
  std::map<RankTimeTally::OpKey, OverlapTotal> ops;
  std::map<RankTimeTally::GroupKind, OverlapTotal> groups;
  std::chrono::nanoseconds span{};  // of all ranks
  bool knows_exposed = false;
  std::int64_t calls = 0;  // of all ranks
};

/// Sums the time of a trace by kind while holding at most one iteration of a rank or, for ranks with compute
/// times, one rank.
class TimeTally {
 public:
  TimeTally(const CallSource& source, const TimeSelection& selection);

  /// Adds blocks of the trace, as passed by visit_calls.
  void add(const CallBlock& block);
  /// Reads streams again that could not be summed in one pass; ranks of more calls than `most` are then
  /// skipped, unless the source has the trace in memory.
  TimeTotals finish(std::int64_t most);

 private:
  void end_stream();
  void fold(const RankTimeTally& tally);
  void fold(const std::vector<IterationOverlap>& rows);
  void fold(EraSums& era, const std::vector<IterationOverlap>& rows);
  void add_rows_of(std::size_t stream, std::int64_t most);
  std::optional<RankStream> read_stream(std::size_t row, std::int64_t most);
  OverlapTotals overlap() const;

  const CallSource& source_;
  TimeSelection selection_;
  std::vector<bool> pipeline_ops_;
  PipelineShapeTally shape_;
  std::optional<std::size_t> stream_;
  std::optional<RankTimeTally> running_;
  std::vector<std::size_t> again_;  // streams to read again
  std::array<std::optional<EraSums>, RankTimeTally::k_eras> eras_;
  std::map<RankRange, BubbleTotal> bubbles_;
  std::int64_t skipped_ranks_ = 0;
};

/// Of a trace in memory.
TimeTotals time_totals(const Trace& trace, const TimeSelection& selection = {});

}  // namespace commlens
