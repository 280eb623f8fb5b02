#pragma once
#include <span>
#include <vector>

#include "commlens/machine/machine.hpp"
#include "commlens/network/contention.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {

/// What calls that are under way at the same time leave each other of the ports of their ranks: of each class
/// the links inside its node, and its share of the node's NICs, outwards and inwards. Switches beyond the
/// NICs are taken to carry all that these send. Ranks of a class do the same, so that one stands for all.
class SharedPorts {
 public:
  /// All outlive it.
  SharedPorts(const Machine& machine, const Plan& plan, const SimulatedRanks& ranks);

  /// The speed of each call, of what it does alone (network/contention.hpp).
  std::vector<double> speeds(std::span<const MovingCall> calls);

 private:
  ActiveTransfer transfer_of(const MovingCall& call) const;

  const Plan& plan_;
  const SimulatedRanks& ranks_;
  std::vector<Placement> places_;  // by channel
  SharedLinks links_;
};

}  // namespace commlens
