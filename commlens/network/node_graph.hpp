#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/network/max_min.hpp"

namespace commlens {

/// A link inside a node, in one direction.
struct NodeLink {
  double bytes_per_second = 0;
  std::int64_t from = 0;  // rank of the node; -1: the switch
  std::int64_t to = 0;
};

/// A NIC of a node, or several NICs of one rank, striped.
struct NodeNic {
  double bytes_per_second = 0;
  std::int64_t owner =
      -1;  // rank of the node that it is attached to; -1: any of its ranks reaches it as well
};

/// The links of one node, numbered from 0, and the ways over them. Ranks are those of the node.
///
/// A switched node ("nvswitch", and any for which only the bandwidth of a rank is known) has a port of each
/// rank, in and out. A mesh, and a node of which the file lists links, has a link each way for each pair;
/// where a mesh has no list, each pair has bandwidth / (ranks - 1). Ways over listed links have the fewest
/// hops, then the widest narrowest link, then the lowest ranks.
class NodeGraph {
 public:
  /// Fails where ranks have no known way to each other.
  static Result<NodeGraph> of(const Machine& machine);

  std::int64_t ranks() const { return ranks_; }
  const std::vector<NodeLink>& links() const { return links_; }
  const std::vector<NodeNic>& nics() const { return nics_; }

  /// Links from one rank to another; none from a rank to itself.
  const std::vector<LinkId>& route(std::int64_t from, std::int64_t to) const;

  /// The NIC that a rank's messages leave and enter by: its own; where it has none, that of the nearest owner
  /// (as routes go), of several the one with the fewest ranks; where owners are not known, NICs are dealt out
  /// evenly.
  std::int64_t nic_of(std::int64_t rank) const { return nic_of_[static_cast<std::size_t>(rank)]; }

  /// Links from a rank to the owner of a NIC, and back.
  const std::vector<LinkId>& route_to_nic(std::int64_t rank, std::int64_t nic) const;
  const std::vector<LinkId>& route_from_nic(std::int64_t nic, std::int64_t rank) const;

  /// The rank next to a NIC: its owner, or the first that takes it.
  std::int64_t rank_at(std::int64_t nic) const;

 private:
  explicit NodeGraph(std::int64_t ranks);
  void add_ports(double bytes_per_second);
  void add_mesh(double bytes_per_second);
  void add_pair(std::int64_t a, std::int64_t b, double bytes_per_second);
  void find_routes();
  void find_routes_from(std::int64_t from);
  void add_nics(const ScaleOut& out);
  void choose_nics();
  std::int64_t nearest_nic(std::int64_t rank, const std::vector<std::int64_t>& taken) const;
  std::size_t place(std::int64_t from, std::int64_t to) const;

  std::int64_t ranks_ = 1;
  std::vector<NodeLink> links_;
  std::vector<std::vector<LinkId>> routes_;  // [from, to]
  std::vector<NodeNic> nics_;
  std::vector<std::int64_t> nic_of_;  // [rank]
};

}  // namespace commlens
