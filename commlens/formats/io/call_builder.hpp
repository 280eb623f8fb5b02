#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// The field `group`: absent, or ranks; none of them when the source does not know.
struct GroupField {
  bool is_given = false;
  std::vector<Rank> ranks;
  friend bool operator==(const GroupField&, const GroupField&) = default;
};

/// A word of a fixed vocabulary, or the text of a source that is none of its words.
template <typename Enum>
struct Word {
  std::optional<Enum> known;
  std::string unknown;

  Word() = default;
  Word(Enum value) : known(value) {}  // NOLINT(google-explicit-constructor): a word is its value
  bool empty() const { return !known && unknown.empty(); }
  friend bool operator==(const Word&, const Word&) = default;
};

/// The words of a calls file (docs/formats/calls.md); empty of an empty text.
Word<CommKind> op_word(std::string_view text);
Word<DType> dtype_word(std::string_view text);
Word<Match> match_word(std::string_view text);

/// One call as a source describes it: the fields of a line of a calls file (docs/formats/calls.md), nothing
/// checked but their types.
struct CallRecord {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> iteration;
  bool iteration_unknown = false;  // the field is there and says nothing
  Phase phase = Phase::other;
  Word<CommKind> op;
  bool is_compute = false;  // no call: when the rank computed
  Word<DType> dtype;
  std::optional<std::int64_t> input_bytes;
  std::optional<std::int64_t> output_bytes;
  GroupField group;
  std::optional<std::int64_t> group_size;  // of a group whose ranks are not known
  std::string group_name;                  // what the source calls that group
  std::string communicator;                // what distinguishes communicators of the same ranks
  std::string axis;                        // what the group runs along
  std::optional<std::int64_t> root;
  bool root_unknown = false;  // a broadcast or reduce whose root the source does not report
  std::optional<std::int64_t> peer;
  std::optional<std::int64_t> micro_batch;
  std::string tag;
  std::string rule;
  std::string name;
  std::string site;
  std::optional<std::int64_t> start_ns;
  std::optional<std::int64_t> duration_ns;
  Word<Match> match;
  std::optional<bool> data_dependent;  // older files: the match `count`
  Reduction reduction = Reduction::unknown;
  Algorithm algorithm = Algorithm::unknown;
  Protocol protocol = Protocol::unknown;
  std::optional<bool> blocking;
  std::string note;
  std::optional<std::int64_t> rounding_bytes;
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

/// Reason in Provenance::skipped of records whose fields contradict each other or are out of range.
constexpr std::string_view k_skipped_impossible = "call with impossible fields";

/// Makes a trace of call records that come in any order of ranks; a rank's calls keep their order.
class CallBuilder {
 public:
  /// `origin` is the file, for the trace's description; `producer` the format.
  CallBuilder(std::string producer, std::string origin);

  /// Checks every field. The error says which one is wrong; the caller adds the place. A record that
  /// `is_compute` is a compute interval and no call.
  Result<void> add(const CallRecord& record);

  /// For logs of other programs: a record that cannot be is skipped and counted (k_skipped_impossible).
  /// Whether it was added.
  bool add_or_skip(const CallRecord& record);
  /// For logs that count equal calls: adds `calls` >= 0 of one whose record has no times.
  Result<void> add_times(const CallRecord& record, std::int64_t calls);

  /// For sources that describe few calls and list many: the op of a record whose group is in groups(). The
  /// record's own group, rank, iteration and times do not matter; its root is a member of the group.
  Result<OpId> describe(const CallRecord& record, GroupId group);
  GroupTable& groups() { return trace_.groups; }
  /// A call of a rank below k_max_ranks, of an op that describe() gave, in an iteration that is not known.
  void append(Rank rank, OpId op, const std::optional<Times>& times = std::nullopt);

  /// A compute interval of a rank below k_max_ranks; `started` <= `finished`.
  void add_compute(Rank rank, const ComputeInterval& interval) {
    stream_of(rank).compute.push_back(interval);
  }

  /// Where the trace comes from and what it misses, for the reader to complete.
  Provenance& provenance() { return trace_.provenance; }

  /// One stream per rank, ascending. Times of a stream are kept when all its calls have them; else they are
  /// dropped and counted. Compute intervals ascend by start.
  Trace finish();

 private:
  Result<void> add_compute(const CallRecord& record, Rank rank);
  Result<CommOp> op_of(const CallRecord& record, CommKind kind, GroupId group,
                       const std::vector<Rank>& members);
  void append(Rank rank, const CommEvent& event, const std::optional<Times>& times);
  Result<GroupId> group_of(const CallRecord& record, CommKind kind, Rank rank);
  RankStream& stream_of(Rank rank);

  Trace trace_;
  std::unordered_map<std::int64_t, std::size_t> streams_;  // rank -> row of trace_.streams
  std::vector<std::int64_t> timed_;                        // per stream: calls with both times
  std::vector<Rank> previous_group_;                       // most lines repeat the group of the line before
  std::optional<GroupId> previous_group_id_;
  std::int64_t previous_size_ = 0;  // of that group, where it is hidden
  std::string previous_name_;
  std::string previous_communicator_;
  std::string previous_axis_;
  std::int64_t half_timed_ = 0;  // calls with a start or a duration alone
};

}  // namespace commlens::formats
