#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/trace/job_states.hpp"

namespace commlens {

/// How a call waits for others.
enum class CallPart : std::uint8_t {
  collective,   // all members of its communicator make it
  send,         // to one rank
  receive,      // from one rank
  receive_any,  // from whichever rank sends: its source is known when it ends
  other         // its members are not known, or it is of one rank alone (one-sided transfers)
};

/// Where calls of several ranks meet: the collectives of a communicator, or the messages from one rank to
/// another in it. Both ends number its calls alike, so a number alone says which call it is: MPI and NCCL ask
/// all members to make the collectives of a communicator in the same order.
struct CallChannel {
  bool is_pair = false;
  bool is_window = false;     // of synchronisations of one-sided communication
  std::vector<Rank> members;  // of a pair: source, destination
  CommunicatorId communicator = k_no_communicator;
  friend auto operator<=>(const CallChannel&, const CallChannel&) = default;
};
constexpr std::size_t k_no_channel = SIZE_MAX;

/// What must be the same on all members of a collective.
struct CallSignature {
  CommKind kind = CommKind::other;
  std::string name;            // of kind `other`
  std::optional<DType> dtype;  // … where sizes are compared
  std::int64_t root = -1;      // a rank; -1: none
  std::int64_t elements = -1;  // -1: may differ between the members, as in MPI_Alltoallv
  friend auto operator<=>(const CallSignature&, const CallSignature&) = default;
};

/// One call of a rank.
struct SeenCall {
  CallPart part = CallPart::other;
  std::size_t channel = k_no_channel;
  std::int64_t number = 0;  // of those of its channel on its side, from 1
  CommOp op;                // its names are below
  std::string name;         // "MPI_Allreduce"; empty where the source has none
  std::string tag;
  std::string site;
  std::vector<Rank> members;  // of a call without a channel, in group order; else those of the channel
  std::int64_t root = -1;     // a rank; -1: none
  Iteration iteration = k_unknown_iteration;
  std::optional<std::int64_t> started_ns;
  bool is_on_device = false;  // under way, and a device is known to have begun it
  bool is_blocking() const { return op.blocking.value_or(false); }
};

/// What one rank has done.
struct RankProgress {
  RankState state;
  /// Its process cannot go on (stopped, or gone while others are there): it counts as in no call.
  bool is_halted = false;
  std::int64_t calls = 0;                                   // that it has entered
  std::unordered_map<std::size_t, std::int64_t> entered{};  // by channel: the number of the last one
  std::vector<SeenCall> open{};                             // calls under way, in issue order
  std::optional<SeenCall> last{};                           // the last call that is over, in issue order
  bool has_last_failed = false;                             // it returned an error
  /// Whether its numbers can be compared: nothing of its calls is missing.
  bool is_known() const { return state.is_recorded && state.lost == 0; }
  /// Requests beyond so many under way are not kept, nor are blocking calls beyond k_most_calls in all.
  static constexpr std::size_t k_most_requests = std::size_t{1} << 16;
  static constexpr std::size_t k_most_calls = k_most_requests + 4096;
  static std::size_t most(bool is_blocking) { return is_blocking ? k_most_calls : k_most_requests; }
};

/// The first collective of a communicator whose members asked for different things and that a rank is still
/// inside of. One that all have left did no harm: MPI lets types differ that have the same bytes.
struct CallDifference {
  std::size_t channel = 0;
  std::int64_t number = 0;
  std::vector<std::pair<CallSignature, std::vector<Rank>>> sides;  // most ranks first
};

/// What all ranks of a job have done.
struct JobProgress {
  std::vector<CallChannel> channels;
  std::vector<RankProgress> ranks;          // ascending; members that nothing is recorded of too
  std::vector<CallDifference> differences;  // at most one a channel
};

/// Counts the calls of ranks, one rank after the other.
class ProgressBuilder {
 public:
  /// `tables` are those that the rank's calls refer to.
  void begin_rank(const RankState& state, const Trace& tables);
  /// The rank has made so many calls like this one, which are not given. Before add().
  void skip(OpId op, std::int64_t calls);
  void add(const StatedCall& call);
  void end_rank();
  JobProgress finish();

 private:
  /// What all calls of an op of the rank have in common.
  struct Place {
    CallPart part = CallPart::other;
    std::size_t channel = k_no_channel;
    std::uint32_t signature = 0;
  };
  static const Place k_uncounted;
  /// The signatures of a channel's calls, as the first rank that reached each has it.
  struct Reference {
    std::int64_t first = 1;  // number of the first one
    std::vector<std::uint32_t> signatures;
    /// Of each rank the last calls that differ, by number.
    std::map<Rank, std::map<std::int64_t, std::uint32_t>> differing;
    static constexpr std::size_t k_most_differing = 64;
  };

  Place place_of(OpId op);
  Place new_place(const CommOp& op);
  std::size_t channel_of(CallChannel channel);
  std::uint32_t signature_of(const CallSignature& signature);
  void compare(std::size_t channel, std::int64_t number, std::uint32_t signature);
  SeenCall seen(const StatedCall& call, const Place& place, std::int64_t number) const;
  std::optional<CallDifference> difference_of(std::size_t channel) const;
  std::vector<std::pair<CallSignature, std::vector<Rank>>> sides_of(std::size_t channel,
                                                                    std::int64_t number) const;

  const Trace* tables_ = nullptr;
  std::unordered_map<std::uint32_t, Place> places_;  // by op of `tables_`
  std::optional<std::pair<StatedCall, std::int64_t>> last_;
  JobProgress job_;
  std::map<CallChannel, std::size_t> channel_ids_;
  std::vector<Reference> references_;
  /// Numbers that no call has, in all references together: a file may claim that its next call is any.
  std::int64_t gaps_left_ = std::int64_t{1} << 24;
  std::map<CallSignature, std::uint32_t> signature_ids_;
  std::vector<CallSignature> signatures_;
};

/// Adds the members of communicators that nothing is recorded of, and sorts the ranks.
void add_unrecorded(JobProgress& job);

/// The progress of a recording.
JobProgress progress_of(const JobStates& states);

}  // namespace commlens
