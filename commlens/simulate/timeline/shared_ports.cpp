#include "commlens/simulate/timeline/shared_ports.hpp"

#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

/// Ports of a class, from 4 times its row on.
enum Port : std::uint8_t { up_out, up_in, nic_out, nic_in };
constexpr std::size_t k_ports = 4;
constexpr double k_bytes_of_gb = 1e9;

LinkId port_of(std::uint32_t row, Port port) { return static_cast<LinkId>(row * k_ports + port); }

constexpr double k_unlimited =
    1e18;  // bytes/s of ports that a machine file says nothing of: they hold nobody up

std::vector<double> port_capacities(const Machine& machine, std::size_t classes) {
  const double up = machine.up.bandwidth ? machine.up.bandwidth->value * k_bytes_of_gb : k_unlimited;
  const double nic = machine.out.nics && machine.out.bandwidth
                         ? machine.out.nics->value * machine.out.bandwidth->value * k_bytes_of_gb /
                               machine.ranks_per_node.value
                         : k_unlimited;
  std::vector<double> capacities;
  for (std::size_t row = 0; row < classes; ++row) {
    capacities.insert(capacities.end(), {up, up, nic, nic});
  }
  return capacities;
}

/// Parts of a call's bytes that a rank sends inside its node, and out of it.
struct SentParts {
  double inside = 0;
  double across = 0;
};

SentParts sent_parts(CommKind kind, const Placement& place) {
  const auto ranks = static_cast<double>(place.ranks);
  const auto per_node = static_cast<double>(place.per_node());
  if (kind == CommKind::all_to_all) {
    return {(per_node - 1) / ranks, (ranks - per_node) / ranks};
  }
  return {place.per_node() > 1 ? sent_share(kind, place.ranks) : 0,
          place.nodes > 1 ? sent_share(kind, place.nodes) / per_node : 0};
}

std::vector<Placement> places_of(const SimulatedRanks& ranks) {
  std::vector<Placement> places(ranks.channels.size());
  for (const SimulatedClass& simulated : ranks.classes) {
    for (const auto& [group, seen] : simulated.groups) {
      places[seen.channel] = seen.place;
    }
  }
  return places;
}

}  // namespace

SharedPorts::SharedPorts(const Machine& machine, const Plan& plan, const SimulatedRanks& ranks)
    : plan_(plan),
      ranks_(ranks),
      places_(places_of(ranks)),
      links_(port_capacities(machine, ranks.classes.size())) {}

ActiveTransfer SharedPorts::transfer_of(const MovingCall& call) const {
  ActiveTransfer transfer;
  const CommOp& op = plan_.tables.op(call.op);
  const Channel& channel = ranks_.channels[call.channel];
  const Placement& place = places_[call.channel];
  const double seconds = static_cast<double>(call.alone) / k_ticks_per_second;
  const auto bytes = static_cast<double>(message_bytes(op).value);
  if (seconds <= 0 || bytes <= 0) {
    return transfer;
  }
  if (channel.is_message) {
    const bool is_near = place.nodes == 1;
    transfer.uses.push_back({port_of(channel.classes[0], is_near ? up_out : nic_out), bytes / seconds, 1});
    transfer.uses.push_back({port_of(channel.classes[1], is_near ? up_in : nic_in), bytes / seconds, 1});
    return transfer;
  }
  const SentParts parts = sent_parts(op.kind, place);
  const double inside = bytes * parts.inside / seconds;
  const double across = bytes * parts.across / seconds;
  for (const std::uint32_t row : channel.classes) {
    for (const auto& [port, rate] : {std::pair(up_out, inside), std::pair(up_in, inside),
                                     std::pair(nic_out, across), std::pair(nic_in, across)}) {
      if (rate > 0) {
        transfer.uses.push_back({port_of(row, port), rate, 1});
      }
    }
  }
  return transfer;
}

std::vector<double> SharedPorts::speeds(std::span<const MovingCall> calls) {
  std::vector<ActiveTransfer> transfers;
  for (const MovingCall& call : calls) {
    transfers.push_back(transfer_of(call));
  }
  const std::span<const double> speeds = links_.speeds(transfers);
  return {speeds.begin(), speeds.end()};
}

}  // namespace commlens
