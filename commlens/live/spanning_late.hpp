#pragma once
#include <map>
#include <vector>

#include "commlens/live/job_view.hpp"

namespace commlens {

/// Which ranks delay those of other nodes, by the rule of summary/slow_ranks.hpp: blocks that begin and end
/// together on all members of a communicator are compared, whenever each node has told them. Members that
/// tell nothing are left out where most do.
class SpanningLate {
 public:
  /// The row must stay where it is.
  void add(const SpanningWork& work) { works_[work.channel].push_back(&work); }

  /// Gives the ranks their scores where they are judged by a communicator that is wider than the one that
  /// their node knows; of several the widest with k_enough_blocks (late_rule.hpp), or with half as many that
  /// cover so many blocks of one of its members.
  void judge(const std::vector<CallChannel>& channels, std::vector<LiveRank>& ranks) const;

 private:
  std::map<std::size_t, std::vector<const SpanningWork*>> works_;  // by channel
};

}  // namespace commlens
