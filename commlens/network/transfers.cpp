#include "commlens/network/transfers.hpp"

#include <algorithm>
#include <vector>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// The group's order in which the ranks of each node begin `turn` places later.
std::vector<Rank> turned(const Topology& topology, std::span<const Rank> group, std::int64_t turn) {
  std::vector<Rank> order(group.begin(), group.end());
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::find_if(
        first, order.end(), [&](Rank rank) { return topology.node_of(rank) != topology.node_of(*first); });
    std::rotate(first, first + turn % (last - first), last);
    first = last;
  }
  return order;
}

}  // namespace

std::vector<Hop> ring_hops(const Topology& topology, std::span<const Rank> group, std::int64_t channels) {
  COMMLENS_CHECK(channels > 0, "a collective has channels");
  std::vector<Hop> hops;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::vector<Rank> order = turned(topology, group, channel);
    for (std::size_t at = 0; at < order.size(); ++at) {
      hops.push_back({order[at], order[(at + 1) % order.size()]});
    }
  }
  return hops;
}

std::vector<Hop> exchange_hops(std::span<const Rank> group) {
  std::vector<Hop> hops;
  for (const Rank from : group) {
    for (const Rank to : group) {
      if (from != to) {
        hops.push_back({from, to});
      }
    }
  }
  return hops;
}

ActiveTransfer hops_transfer(const Topology& topology, std::span<const Hop> hops, double bytes_per_second) {
  std::vector<LinkId> links;
  for (const Hop& hop : hops) {
    const std::vector<LinkId> way = topology.route(hop.from, hop.to);
    links.insert(links.end(), way.begin(), way.end());
  }
  std::ranges::sort(links);
  ActiveTransfer transfer;
  for (const LinkId link : links) {
    if (transfer.uses.empty() || transfer.uses.back().link != link) {
      transfer.uses.push_back({.link = link, .bytes_per_second = bytes_per_second, .streams = 0});
    }
    ++transfer.uses.back().streams;
  }
  return transfer;
}

ActiveTransfer message_transfer(const Topology& topology, Rank from, Rank to, double bytes_per_second) {
  const Hop hop{from, to};
  return hops_transfer(topology, {&hop, 1}, bytes_per_second);
}

ActiveTransfer ring_transfer(const Topology& topology, std::span<const Rank> group, double bytes_per_second,
                             std::int64_t channels) {
  return hops_transfer(topology, ring_hops(topology, group, channels),
                       bytes_per_second / static_cast<double>(channels));
}

ActiveTransfer exchange_transfer(const Topology& topology, std::span<const Rank> group,
                                 double bytes_per_second) {
  return hops_transfer(topology, exchange_hops(group), bytes_per_second);
}

}  // namespace commlens
