#pragma once
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "commlens/network/max_min.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {

/// How fast calls that are under way at the same time move over the links of a job, of what they do alone:
/// weighted max-min, as SharedLinks has it (network/contention.hpp), with one user for all groups of a
/// channel, since these move at the same times. A group that by itself needs more of a node's link or NIC
/// than there is counts as filling it: times of calls know these. What they do not know are links between
/// nodes: of those a call takes what it needs, and waits.
class CallSpeeds {
 public:
  /// The ranks are those of this topology. All outlive it.
  CallSpeeds(const Topology& topology, const Plan& plan, const SimulatedRanks& ranks);

  /// The speed of each call, as numbers of single precision: the same whatever the order of sums.
  std::vector<double> of(std::span<const MovingCall> calls);

 private:
  struct User {
    std::vector<LinkUse> uses;
    double weight = 1;
  };
  const User& user_of(const MovingCall& call);
  User new_user(const MovingCall& call) const;

  const Plan& plan_;
  const SimulatedRanks& ranks_;
  MaxMin links_;
  std::vector<bool> is_between_;  // by link
  std::map<std::tuple<OpId, ChannelId, Ticks>, User> users_;
};

}  // namespace commlens
