#include "commlens/simulate/timeline/simgrid_calls.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

/// The ways that all groups' messages take.
std::vector<SimgridWay> ways_of(const Topology& topology, const SimulatedRanks& ranks) {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const Channel& channel : ranks.channels) {
    for (const auto& [pattern, loads] : channel.loads) {
      for (const std::vector<Rank>& members : channel.groups) {
        for (const Hop& hop : hops_of(topology, members, pattern, channel.place)) {
          pairs.emplace(hop.from.value, hop.to.value);
        }
      }
    }
  }
  std::vector<SimgridWay> ways;
  for (const auto& [from, to] : pairs) {
    ways.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(to),
                    topology.route(Rank{from}, Rank{to})});
  }
  return ways;
}

}  // namespace

Result<std::unique_ptr<SimgridCalls>> SimgridCalls::start(const Topology& topology, const Plan& plan,
                                                          const SimulatedRanks& ranks) {
  SimgridNetwork network;
  network.hosts = static_cast<std::int32_t>(plan.job.layout.ranks);
  network.capacities = topology.capacities();
  network.ways = ways_of(topology, ranks);
  return SimgridSession::start(network).map([&](SimgridSession session) {
    return std::unique_ptr<SimgridCalls>(new SimgridCalls(topology, plan, ranks, std::move(session)));
  });
}

CallPlayer SimgridCalls::player() {
  CallPlayer player;
  player.begin = [this](std::uint32_t number, const MovingCall& call, Ticks now) {
    return begin(number, call, now);
  };
  player.next_end = [this](Ticks limit) -> std::optional<PlayedCallEnd> {
    const double seconds = limit == k_never ? std::numeric_limits<double>::infinity()
                                            : static_cast<double>(limit) / k_ticks_per_second;
    const std::optional<SimgridSession::End> end = session_.next_end(seconds);
    if (!end) {
      return std::nullopt;
    }
    return PlayedCallEnd{end->call, static_cast<Ticks>(std::llround(end->seconds * k_ticks_per_second))};
  };
  return player;
}

bool SimgridCalls::begin(std::uint32_t number, const MovingCall& call, Ticks now) {
  const std::tuple key(call.op, call.channel, call.alone);
  auto known = known_.find(key);
  if (known == known_.end()) {
    known = known_.emplace(key, streams_of(call)).first;
  }
  if (known->second.empty()) {
    return false;
  }
  session_.begin(number, static_cast<double>(now) / k_ticks_per_second, known->second);
  return true;
}

std::vector<SimgridStream> SimgridCalls::streams_of(const MovingCall& call) const {
  const CommOp& op = plan_.tables.op(call.op);
  const Channel& channel = ranks_.channels[call.channel];
  const std::optional<CallPattern> pattern = pattern_of(op);
  std::vector<SimgridStream> streams;
  if (!pattern || call.alone <= 0 || channel.loads.find(*pattern) == channel.loads.end()) {
    return streams;
  }
  const double seconds = static_cast<double>(call.alone) / k_ticks_per_second;
  const double rate =
      static_cast<double>(message_bytes(op).value) * share_of_hop(op.kind, channel.place) / seconds;
  for (const std::vector<Rank>& members : channel.groups) {
    add_streams(streams, hops_of(topology_, members, *pattern, channel.place), rate, seconds);
  }
  return streams;
}

/// Those of one group. Where it needs more of a node's link or NIC than there is, it counts as filling it:
/// its messages have fewer bytes there, so that alone it takes the time that it takes.
void SimgridCalls::add_streams(std::vector<SimgridStream>& streams, std::span<const Hop> hops, double rate,
                               double seconds) const {
  std::map<LinkId, double> fills;
  for (const LinkStream& use : hops_transfer(topology_, hops, rate).uses) {
    const double needed = use.bytes_per_second * use.streams;
    const double capacity = capacities_[static_cast<std::size_t>(use.link)];
    const bool is_known = !is_between_nodes(topology_.link(use.link).kind);
    fills[use.link] = is_known ? std::min(1.0, capacity / needed) : 1;
  }
  for (const Hop& hop : hops) {
    double part = 1;
    for (const LinkId link : topology_.route(hop.from, hop.to)) {
      part = std::min(part, fills.at(link));
    }
    const double bytes = std::max(1.0, std::round(rate * seconds * part));
    streams.push_back({static_cast<std::int32_t>(hop.from.value), static_cast<std::int32_t>(hop.to.value),
                       bytes, bytes / seconds});
  }
}

}  // namespace commlens
