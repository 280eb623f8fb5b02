#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/comm/rank_range.hpp"
#include "commlens/machine/cost/call.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/call_flows.hpp"

namespace commlens {

/// Row of SimulatedRanks::channels: what calls of one kind of communicator meet in.
using ChannelId = std::uint32_t;

/// A communicator as one class of ranks sees it.
struct ClassGroup {
  ChannelId channel = 0;
  Placement place;
  std::int64_t sharers = 1;  // groups of a node that leave it beside each other, at the same time
};

/// How many nodes of `ranks_per_node` ranks the members are on.
Placement placement_of(const std::vector<Rank>& members, std::int64_t ranks_per_node);

/// Groups of a node that leave it at the same time, where all of its ranks are in one.
std::int64_t sharers_of(const Placement& place, std::int64_t ranks_on_node);

/// What calls of a channel take of a link that stands for all that are alike.
struct SharedLoad {
  LinkId link = 0;
  std::int64_t streams = 0;  // of each group
  std::int64_t groups = 0;   // that take so many
};

/// What calls meet in: groups of ranks whose members are of the same classes. A collective begins once a rank
/// of each class has come, a message once its sender and its receiver have.
struct Channel {
  std::vector<std::uint32_t>
      classes;  // of its members, ascending; of a message the sender's and the receiver's
  bool is_message = false;
  // With a topology only:
  Placement place;
  std::vector<std::vector<Rank>> groups;                      // that meet in it, all at the same times
  std::map<CallPattern, std::vector<SharedLoad>> loads = {};  // of all of them
};

/// Ranks that do the same at the same times: they take the same steps, their groups lie on nodes alike, and
/// the members of those are of the same classes. One of them stands for all.
struct SimulatedClass {
  std::size_t plan_class = 0;  // of Plan::classes
  std::vector<RankRange> ranks;
  std::int64_t count = 0;
  std::map<GroupId, ClassGroup> groups;  // that its steps use; but groups of one rank
};

struct SimulatedRanks {
  std::vector<SimulatedClass> classes;
  std::vector<Channel> channels;
};

/// The classes of a plan's ranks on nodes of `ranks_per_node`, rank 0 first. `collapse` off: a class for each
/// rank. `topology`: of the job, where calls share its links; ranks of a class then are alike on them too, so
/// that calls of a channel have one speed at all times. Null: links do not count.
SimulatedRanks simulated_ranks(const Plan& plan, std::int64_t ranks_per_node, bool collapse,
                               const Topology* topology = nullptr);

}  // namespace commlens
