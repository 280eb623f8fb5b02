#include "commlens/machine/cost/comm_graph.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

namespace commlens {
namespace {

// Speeds of a channel that the search tries, GB/s: NVIDIA/nccl src/graph/search.cc.
constexpr double k_intra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double k_intra_hopper[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double k_intra_blackwell[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double k_inter[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12};
constexpr double k_inter_hopper[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
constexpr double k_inter_blackwell[] = {96,   80, 48, 45.1, 42, 40,  30,  24,  22, 20,
                                        17.5, 15, 12, 6,    3,  2.4, 1.2, .24, .12};

constexpr std::int64_t k_most_channels = 16;  // before they are doubled

using Ladder = std::span<const double>;

Ladder intra_ladder(Architecture architecture) {
  return architecture == Architecture::blackwell ? Ladder(k_intra_blackwell)
         : architecture == Architecture::hopper  ? Ladder(k_intra_hopper)
                                                 : Ladder(k_intra);
}

Ladder inter_ladder(Architecture architecture) {
  return architecture == Architecture::blackwell ? Ladder(k_inter_blackwell)
         : architecture == Architecture::hopper  ? Ladder(k_inter_hopper)
                                                 : Ladder(k_inter);
}

double rounded_down(Ladder ladder, double rate) {
  for (const double speed : ladder) {
    if (speed <= rate) {
      return speed;
    }
  }
  return ladder.back();
}

/// GB/s of one rank's links as the library counts them.
std::optional<double> link_total(const Machine& machine) {
  if (machine.up.links && machine.up.effective) {
    return machine.up.links->value * machine.up.effective->value;
  }
  return machine.up.bandwidth ? std::optional(machine.up.bandwidth->value) : std::nullopt;
}

Channels rings_in_node(const Machine& machine, double total) {
  const Architecture architecture = machine.processor.architecture;
  Channels best;
  for (const double speed : intra_ladder(architecture)) {
    const auto count = static_cast<std::int64_t>(total / speed);
    if (count >= 1 && count <= k_most_channels &&
        static_cast<double>(count) * speed > static_cast<double>(best.count) * best.intra) {
      best = {count, speed, speed};
    }
  }
  const bool keeps = architecture == Architecture::blackwell || architecture == Architecture::hopper
                         ? best.intra < 50 && best.count > 4
                         : false;
  if (best.intra >= 25 && !keeps) {
    best = {best.count * 2, best.intra / 2, best.intra / 2};
  }
  return best;
}

/// Of the speeds that a NIC has, the one at which most goes through: a ring for each NIC, as long as the
/// links of a rank, which each ring passes, carry them all.
Channels rings_between_nodes(const Machine& machine, double nics) {
  const Ladder ladder = inter_ladder(machine.processor.architecture);
  const double fastest = rounded_down(ladder, machine.out.bandwidth->value);
  const std::optional<double> total = link_total(machine);
  Channels best{static_cast<std::int64_t>(nics), fastest, fastest};
  if (!total || nics * fastest <= *total) {
    return best;
  }
  best = {1, std::min(fastest, *total), std::min(fastest, *total)};
  for (const double speed : ladder) {
    const auto count = static_cast<std::int64_t>(std::min(nics, *total / speed));
    if (speed <= fastest && count >= 1 &&
        static_cast<double>(count) * speed > static_cast<double>(best.count) * best.inter) {
      best = {count, speed, speed};
    }
  }
  return best;
}

/// One head per GPU, as NVLS needs a switch.
std::optional<Channels> nvls_in_node(const Machine& machine, double total, std::int64_t ranks) {
  const Architecture architecture = machine.processor.architecture;
  const bool has_nvls = machine.up.kind == "nvswitch" &&
                        (architecture == Architecture::hopper || architecture == Architecture::blackwell);
  if (!has_nvls || ranks < 3) {
    return std::nullopt;
  }
  const double share = total / static_cast<double>(ranks - 1);
  const double speed = std::min(rounded_down(intra_ladder(architecture), std::min(total, share)), share);
  return Channels{ranks, speed, speed};
}

std::optional<Channels> stated(const Machine& machine, std::string_view pattern, bool several_nodes) {
  for (const GraphFact& fact : machine.graph) {
    if (fact.pattern == pattern && fact.several_nodes == several_nodes) {
      return Channels{static_cast<std::int64_t>(fact.channels.value), fact.speed.value, fact.speed.value};
    }
  }
  return std::nullopt;
}

Result<CommGraph> graph_between_nodes(const Machine& machine, const Placement& place) {
  CommGraph graph;
  const double nics = nics_of(machine, place);
  if (const std::optional<Channels> ring = stated(machine, "ring", true)) {
    // Stated of whole nodes.
    const double part = nics > 0 ? nics / machine.out.nics->value : 1;
    const auto count = static_cast<std::int64_t>(static_cast<double>(ring->count) * part);
    graph.ring = {std::max<std::int64_t>(count, 1), ring->intra, ring->inter};
  } else if (machine.out.nics && machine.out.bandwidth) {
    graph.ring = rings_between_nodes(machine, nics);
  } else {
    return failure(
        fmt::format("machine {}: scale_out has no nics and bandwidth, so there are no times between nodes",
                    machine.name));
  }
  const std::optional<double> total = link_total(machine);
  const std::optional<Channels> alone =
      total ? nvls_in_node(machine, *total, place.per_node()) : std::nullopt;
  graph.nvls = place.per_node() > 2 ? stated(machine, "nvls", true) : std::nullopt;
  if (!graph.nvls && alone) {
    graph.nvls = Channels{alone->count, std::min(alone->intra, graph.ring.inter), graph.ring.inter};
  }
  return graph;
}

}  // namespace

double nics_of(const Machine& machine, const Placement& place) {
  if (!machine.out.nics) {
    return 0;
  }
  const double all = machine.out.nics->value;
  const double of_rank = std::ceil(all / std::max(machine.ranks_per_node.value, 1.0));
  return std::min(all, of_rank * static_cast<double>(place.per_node()));
}

Result<CommGraph> comm_graph(const Machine& machine, const Placement& place) {
  if (place.nodes > 1) {
    return graph_between_nodes(machine, place);
  }
  CommGraph graph;
  const std::optional<double> total = link_total(machine);
  const std::optional<Channels> ring = stated(machine, "ring", false);
  if (!ring && !total) {
    return failure(fmt::format("machine {}: scale_up has no bandwidth, so there are no times inside a node",
                               machine.name));
  }
  graph.ring = ring ? *ring : rings_in_node(machine, *total);
  graph.nvls = stated(machine, "nvls", false);
  if (!graph.nvls && total) {
    graph.nvls = nvls_in_node(machine, *total, place.ranks);
  }
  return graph;
}

}  // namespace commlens
