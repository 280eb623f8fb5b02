#include "commlens/network/transfers.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// Counts the streams of each link.
class StreamCount {
 public:
  explicit StreamCount(const Topology& topology) : topology_(topology) {}

  void add(Rank from, Rank to) {
    for (const LinkId link : topology_.route(from, to)) {
      ++streams_[link];
    }
  }

  ActiveTransfer transfer(double bytes_per_second) const {
    ActiveTransfer result;
    result.uses.reserve(streams_.size());
    for (const auto& [link, streams] : streams_) {
      result.uses.push_back({.link = link, .bytes_per_second = bytes_per_second, .streams = streams});
    }
    return result;
  }

 private:
  const Topology& topology_;
  std::map<LinkId, double> streams_;
};

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

ActiveTransfer message_transfer(const Topology& topology, Rank from, Rank to, double bytes_per_second) {
  StreamCount count(topology);
  count.add(from, to);
  return count.transfer(bytes_per_second);
}

ActiveTransfer ring_transfer(const Topology& topology, std::span<const Rank> group, double bytes_per_second,
                             std::int64_t channels) {
  COMMLENS_CHECK(channels > 0, "a collective has channels");
  StreamCount count(topology);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::vector<Rank> order = turned(topology, group, channel);
    for (std::size_t at = 0; at < order.size(); ++at) {
      count.add(order[at], order[(at + 1) % order.size()]);
    }
  }
  return count.transfer(bytes_per_second / static_cast<double>(channels));
}

ActiveTransfer exchange_transfer(const Topology& topology, std::span<const Rank> group,
                                 double bytes_per_second) {
  StreamCount count(topology);
  for (const Rank from : group) {
    for (const Rank to : group) {
      count.add(from, to);
    }
  }
  return count.transfer(bytes_per_second);
}

}  // namespace commlens
