#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/summary/call_routes.hpp"
#include "commlens/summary/lanes.hpp"
#include "commlens/summary/rank_time.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Ranks that delay the others, determined without comparing clocks (docs/timing.md). The calls of a
/// communicator that all members make (except sends and receives) are numbered on each member. A block of
/// calls of the same numbers covers the same part of the program on all members, so their work can be
/// compared: the time between calls (RankTime; between any calls, not only those of this communicator). A
/// rank that merely waits for another, in whatever group, spends that time in calls.
///
/// A block reaches from the end of the last call of the block before to the end of its own last call, and has
/// k_block_calls calls or, where iterations are known, as many whole iterations as have that many together
/// (longer ones are cut after each k_block_calls, and what remains goes with the start of the next); what is
/// left at the end is a block if it is at least an eighth of that or the only one. The part before
/// the first call of a communicator, and that between initialisation and the first iteration, is in no block.
///
/// With m the median of the members' times between calls (of an even number the lower middle one) and d the
/// median of their distances to m, a member is *slow* in a block when its time between calls exceeds m by
/// more than m / 20, 3 d and a hundredth of the block, by at least half as much as that of any other member
/// (a smaller excess may be masked), and its time in calls is not above the median of those.
///
/// Blocks of several communicators cover the same time. A rank is judged by the widest of its communicators
/// that have at least 8 blocks or half as many as any of them: delaying a small group costs nothing while
/// another rank delays all. Of several equally wide ones, the one with its largest excess is used.
struct RankWork {
  Rank rank;
  std::chrono::nanoseconds between_calls{};  // from its first call to the end of its last …
  std::chrono::nanoseconds in_calls{};       // … in the iterations that were selected
  // On the communicator by which it is judged:
  std::int64_t blocks = 0;            // that were compared
  std::int64_t slow = 0;              // of them it was slow in
  std::chrono::nanoseconds excess{};  // over the median, in the blocks in which it was slow
  std::size_t group = 0;              // row of SlowRanks::groups, where blocks > 0
  /// Persistently slow: in at least half of the blocks, and in more than one where there is more than one.
  bool is_slow() const { return 2 * slow >= blocks && slow >= std::clamp<std::int64_t>(blocks, 1, 2); }
  friend bool operator==(const RankWork&, const RankWork&) = default;
};

/// The blocks of one communicator.
struct GroupWork {
  Axis axis = Axis::unknown;
  std::vector<Rank> members;  // in group order
  CommunicatorId communicator = k_no_communicator;
  std::int64_t calls = 0;  // in the blocks that were compared
  std::int64_t blocks = 0;
  std::int64_t slow_blocks = 0;  // in which a member was slow
  /// Parts of iterations (or of 64 calls) in which the members' calls differ in number, kind or root because
  /// records are missing. They are in no block; the comparison continues after them.
  std::int64_t differing = 0;
  friend bool operator==(const GroupWork&, const GroupWork&) = default;
};

constexpr std::int64_t k_block_calls = 64;

struct SlowRanks {
  std::vector<RankWork> ranks;    // ascending; every rank whose calls have times
  std::vector<GroupWork> groups;  // by axis, members, communicator; those of several members that have calls
  std::int64_t differing = 0;     // of all groups
  std::int64_t blocks = 0;        // of all groups
};

/// Compares the blocks of one communicator.
class BlockComparison {
 public:
  /// A member's part of a block: the calls of one iteration, at most k_block_calls of them.
  struct Part {
    std::int64_t calls = 0;
    std::uint64_t signature = 0;  // of their kinds and roots, in any order
    std::int64_t between_ns = 0;
    std::int64_t in_calls_ns = 0;
    /// The part that comes after it.
    void add(const Part& next) {
      calls = saturating_sum(calls, next.calls);
      signature += next.signature;
      between_ns = saturating_sum(between_ns, next.between_ns);
      in_calls_ns = saturating_sum(in_calls_ns, next.in_calls_ns);
    }
    std::int64_t length_ns() const { return saturating_sum(between_ns, in_calls_ns); }
  };
  struct Member {
    std::int64_t slow = 0;
    std::int64_t excess_ns = 0;
  };

  /// `group`: the communicator, without counts; `held`: as in Lanes.
  BlockComparison(GroupWork group, std::vector<std::int64_t*> held);

  Lanes<Part>& parts() { return parts_; }
  std::int64_t waiting() const { return parts_.waiting(); }
  /// Compares the parts that all members have so far.
  void compare();
  /// The parts of all members that come next, matched elsewhere; those that differ are in no block.
  void add(const std::vector<Part>& parts);
  /// After the last part of all members.
  void finish();

  const GroupWork& work() const { return work_; }
  const std::vector<Member>& members() const { return members_; }

 private:
  void compare_block();

  GroupWork work_;
  Lanes<Part> parts_;
  std::vector<Part> block_;
  std::vector<Member> members_;
};

/// Counts the calls of one communicator on one member into parts, in the order in which they end.
class CallParts {
 public:
  struct Given {
    std::int64_t label = 0;
    BlockComparison::Part part;
  };

  /// A call ended. `label`: of its iteration; `counts`: whether it is of one that was selected. The part
  /// before it, where that is whole now.
  std::optional<Given> ended(std::int64_t label, bool counts, std::uint64_t signature,
                             const RankTime::Totals& totals);
  /// What is left.
  std::optional<Given> finish();
  /// Calls are missing here: what is left is dropped, and the time up to the end of the next call.
  void restart();

 private:
  std::int64_t label_ = INT64_MIN;
  bool has_mark_ = false;
  RankTime::Totals mark_;  // at the end of the last call of the part before …
  RankTime::Totals last_;  // … and of this one so far
  BlockComparison::Part part_;
};

/// The parts of one member, which are compared as soon as all members have them.
class GroupStrand {
 public:
  GroupStrand(BlockComparison& comparison, std::size_t member) : comparison_(&comparison), member_(member) {}

  /// As CallParts.
  void ended(std::int64_t label, bool counts, std::uint64_t signature, const RankTime::Totals& totals) {
    give(parts_.ended(label, counts, signature, totals));
  }
  /// No call of the rank is left.
  void finish() { give(parts_.finish()); }
  bool is_of(const BlockComparison& comparison) const { return comparison_ == &comparison; }

 private:
  void give(const std::optional<CallParts::Given>& given);

  BlockComparison* comparison_;
  std::size_t member_;
  CallParts parts_;
};

}  // namespace commlens
