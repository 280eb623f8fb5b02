#pragma once
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "commlens/network/simgrid_session.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {

/// Moves calls through SimGrid: the messages of each group of a channel, each as fast as it is alone, or as
/// the links leave it. A call ends with the last of its messages; unlike in CallSpeeds, none waits for the
/// slowest.
class SimgridCalls {
 public:
  /// All outlive it. Fails where SimGrid cannot be asked.
  static Result<std::unique_ptr<SimgridCalls>> start(const Topology& topology, const Plan& plan,
                                                     const SimulatedRanks& ranks);

  /// For one run from time 0; this object outlives it.
  CallPlayer player();

 private:
  SimgridCalls(const Topology& topology, const Plan& plan, const SimulatedRanks& ranks,
               SimgridSession session)
      : topology_(topology),
        capacities_(topology.capacities()),
        plan_(plan),
        ranks_(ranks),
        session_(std::move(session)) {}
  bool begin(std::uint32_t number, const MovingCall& call, Ticks now);
  std::vector<SimgridStream> streams_of(const MovingCall& call) const;
  void add_streams(std::vector<SimgridStream>& streams, std::span<const Hop> hops, double rate,
                   double seconds) const;

  const Topology& topology_;
  std::vector<double> capacities_;
  const Plan& plan_;
  const SimulatedRanks& ranks_;
  SimgridSession session_;
  std::map<std::tuple<OpId, ChannelId, Ticks>, std::vector<SimgridStream>> known_;
};

}  // namespace commlens
