#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"

namespace commlens {

/// Strings stored once; id 0 is the empty string.
template <typename Id>
class StringTable {
 public:
  StringTable() { intern(""); }
  Id intern(std::string_view text) {
    const auto found = ids_.find(std::string(text));
    if (found != ids_.end()) {
      return found->second;
    }
    const Id id{static_cast<std::uint32_t>(texts_.size())};
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  const std::string& text(Id id) const { return texts_.at(static_cast<std::size_t>(id)); }
  std::size_t count() const { return texts_.size(); }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, Id> ids_;
};

/// Why a predicted call exists: a short name and the framework's file and line.
struct Rule {
  std::string name;      // "zero1.gradient_all_reduce"
  std::string source;    // "deepspeed 0.14.0 runtime/zero/stage_1_and_2.py:1496"
  bool verified = true;  // measured against a recorded run, not only read
  friend bool operator==(const Rule&, const Rule&) = default;
};

enum class Source : std::uint8_t { predicted, recorded, imported, simulated, replayed };
std::string_view name_of(Source source);

/// What a size in the trace counts: our message definition, or what DeepSpeed's comms logger prints
/// (docs/volumes.md).
enum class Accounting : std::uint8_t { messages, comms_logger };
std::string_view name_of(Accounting accounting);

/// The source or accounting of that name; std::nullopt if there is none.
std::optional<Source> source_from(std::string_view name);
std::optional<Accounting> accounting_from(std::string_view name);

/// What recording cost, and how good its times are; the largest figure of all ranks.
struct RecorderCost {
  std::string clock;                         // "tsc" or "monotonic"
  std::chrono::nanoseconds cost_per_call{};  // a rank's median; of NCCL's calls the mean of all
  std::int64_t clock_error_ppb = 0;          // how far the clock's rate may be off, in parts per billion
  std::int64_t dropped = 0;                  // calls that were made and not recorded, of all ranks
  friend bool operator==(const RecorderCost&, const RecorderCost&) = default;
};

/// Reasons in Provenance::skipped that readers of a trace ask for.
constexpr std::string_view k_skipped_unfinished = "unfinished call";
constexpr std::string_view k_skipped_failed = "failed call";
constexpr std::string_view k_skipped_cancelled = "cancelled call";
// Parts of a file that a crashed machine or a file system lost, which read as zeros.
constexpr std::string_view k_skipped_zeros = "call lost, record of zeros";
constexpr std::string_view k_skipped_impossible_record = "call lost, impossible record";
constexpr std::string_view k_skipped_undescribed = "call lost, not described in the tables";
constexpr std::string_view k_skipped_compute = "compute time lost, zeros or impossible record";
constexpr std::string_view k_skipped_header = "rank whose file lost its header";
constexpr std::string_view k_skipped_table_line = "line of a rank's tables lost";
constexpr std::string_view k_skipped_disk_full = "call not recorded, disk full";
constexpr std::string_view k_skipped_recorder_late = "call not recorded, recorder late";
constexpr std::string_view k_skipped_overwritten = "call overwritten, ring full";
constexpr std::string_view k_skipped_no_memory = "call not recorded, memory was out";
constexpr std::string_view k_skipped_tables_full = "call not recorded, too many different calls";

/// Where a trace comes from, and what it misses.
struct Provenance {
  Source source = Source::predicted;
  Accounting accounting = Accounting::messages;
  std::string producer;                         // "commlens 0.1.0", "deepspeed comms logger"
  std::string description;                      // model and layout, or the file
  std::string framework;                        // predicted traces
  bool verified = true;                         // every rule used was measured
  std::map<std::string, std::int64_t> skipped;  // records skipped, by reason
  std::map<std::string, std::int64_t> assumed;  // what the source does not say and the reader filled in
  std::optional<RecorderCost> recorder;         // finished recordings
  /// Times are averages of several calls each (benchmark tables), their starts placed end to end. They show
  /// bandwidths, and nothing about single calls or about what went on at the same time.
  bool averaged_times = false;
  std::int64_t job_ranks = 0;  // ranks of the whole job, where the source says so; 0: it does not
  /// Whether the transport moved calls on while their ranks computed; absent where the source does not say.
  /// Without, nothing can be hidden: overlap then describes the transport, not the job.
  std::optional<bool> progress;

  /// Counts records skipped.
  void skip(const std::string& reason, std::int64_t records = 1);
  /// Counts what was filled in; nothing is missing for it.
  void assume(const std::string& reason, std::int64_t records = 1);
};

/// An interval of time on the clock of a stream's Times, `started` <= `finished`.
struct Interval {
  std::chrono::nanoseconds started{};
  std::chrono::nanoseconds finished{};
  friend auto operator<=>(const Interval&, const Interval&) = default;
};

/// Events of sources that do not say which iteration they belong to (printed summaries).
constexpr Iteration k_unknown_iteration = INT32_MIN;

/// An interval of time in which a rank computed, `started` <= `finished`, and the iteration it belongs to.
struct ComputeInterval {
  std::chrono::nanoseconds started{};
  std::chrono::nanoseconds finished{};
  Iteration iteration = k_unknown_iteration;
  friend auto operator<=>(const ComputeInterval&, const ComputeInterval&) = default;
};

/// The calls of one rank, or of every rank of a class, in issue order.
struct RankStream {
  RankRange ranks;  // which do exactly the same
  std::vector<CommEvent> events;
  std::vector<Times> times;              // empty, or one per event
  std::vector<ComputeInterval> compute;  // ascending by start, may overlap; empty: not known
};

/// Calls of a job, from any source. Descriptions are stored once in `ops`; events refer to them.
class Trace {
 public:
  Trace() = default;
  explicit Trace(Mesh mesh) : groups(std::move(mesh)) {}

  /// Id of an equal op, added if new.
  OpId intern(const CommOp& op);
  const CommOp& op(OpId id) const { return ops_[static_cast<std::size_t>(id)]; }
  const std::vector<CommOp>& ops() const { return ops_; }

  RuleId intern(const Rule& rule);
  const Rule& rule(RuleId id) const { return rules_.at(static_cast<std::size_t>(id)); }
  const std::vector<Rule>& rules() const { return rules_; }

  /// One more than the highest rank of any stream.
  std::int64_t ranks() const;
  /// Ranks of the whole job, of which the trace may hold a few: as its source says, else ranks().
  std::int64_t job_ranks() const;
  /// The stream that holds `rank`'s calls; null when there is none. Fast when `streams` ascends by rank.
  const RankStream* stream_of(Rank rank) const;
  /// The iterations that occur, ascending; empty for traces without iterations (k_unknown_iteration only).
  std::vector<Iteration> iterations() const;

  GroupTable groups;
  StringTable<TagId> tags;
  StringTable<NameId> names;
  std::vector<RankStream> streams;
  Provenance provenance;

 private:
  void grow_slots();

  std::vector<CommOp> ops_;
  std::vector<std::uint32_t> op_slots_;  // hash table with linear probing over ops_: row + 1, 0 where empty
  std::vector<Rule> rules_{Rule{}};      // id 0: no rule
  std::unordered_map<std::string, RuleId> rule_ids_;
};

}  // namespace commlens
