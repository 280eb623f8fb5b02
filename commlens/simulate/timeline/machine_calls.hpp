#pragma once
#include <map>
#include <string>
#include <tuple>

#include "commlens/comm/event.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"

namespace commlens {

/// A rank's group on nodes of `ranks_per_node`, of a job of `job_ranks`; without a channel. Of groups whose
/// ranks are not known as if they followed each other.
ClassGroup placed_group(const GroupTable& groups, GroupId group, Rank self, std::int64_t ranks_per_node,
                        std::int64_t job_ranks);

/// "measured", "borrowed from …".
std::string provenance_text(const CollectiveTime& time);

/// Times of a job's calls on a machine.
class MachineCalls {
 public:
  /// `lender`: the machine that `machine` borrows from; null: none. `library`: what carries calls out. All
  /// outlive it.
  MachineCalls(const Machine& machine, const Machine* lender, Library library);

  /// The time of a call over such a group. Of groups that share their nodes' NICs: that of as many times the
  /// bytes. Calls of the library that have no model here (barriers, those of other names) take what the
  /// smallest all_reduce takes; a library that has none for the machine has all calls by the links alone: the
  /// bytes that each rank sends over its bandwidth, and a fixed latency, uncalibrated.
  const CollectiveTime& time(const CommOp& op, const ClassGroup& group);

  /// Why a call has no time though the library runs on the machine; empty: all have one.
  const std::string& error() const { return error_; }
  /// "nccl 2.29.2"; of a library that does not run there "calls by the links alone".
  std::string text() const;

 private:
  CollectiveTime found(const TimedCall& call);

  const Machine& machine_;
  const Machine* lender_;
  Library library_;
  bool is_by_links_;
  std::string error_;
  std::map<std::tuple<CommKind, std::int64_t, DType, std::int64_t, std::int64_t>, CollectiveTime> known_;
};

}  // namespace commlens
