#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/network/max_min.hpp"
#include "commlens/network/node_graph.hpp"

namespace commlens {

enum class LinkKind : std::uint8_t {
  scale_up,  // inside a node
  nic_out,
  nic_in,
  leaf_up,    // all links of a leaf switch to the spine
  leaf_down,  // and from it
  group_out,  // all global links of a dragonfly group, outwards
  group_in,
  global,  // the links from one dragonfly group to another
};

/// Whether it is beyond the NICs.
bool is_between_nodes(LinkKind kind);

/// One direction of a link, or of several that messages are spread over.
struct Link {
  LinkKind kind = LinkKind::scale_up;
  double bytes_per_second = 0;
  std::int64_t from = 0;  // rank; leaf; group. Of scale_up -1 is the node's switch
  std::int64_t to = 0;    // rank; leaf; group
};

/// What the machine file does not decide.
struct TopologyOptions {
  /// Nodes of a leaf switch where scale_out.shape does not say. Without oversubscription it changes no rate.
  std::int64_t nodes_per_leaf = 32;
  /// Dragonfly: messages between two groups take only the links between these (minimal), not all global links
  /// of both (adaptive, ideal).
  bool minimal_routing = false;
};

/// The links of a job on whole nodes 0, 1, … of a machine, filled in order: rank r is on node r /
/// ranks_per_node, nodes fill leaves and groups in order. Links are numbered from 0: those of node 0, of node
/// 1, …, then those between nodes.
class Topology {
 public:
  /// Fails where the machine file lacks what ways between ranks need, or has fewer nodes.
  static Result<Topology> of(const Machine& machine, std::int64_t nodes, const TopologyOptions& options = {});

  std::int64_t ranks() const { return nodes_ * graph_.ranks(); }
  std::int64_t nodes() const { return nodes_; }
  std::int64_t node_of(Rank rank) const { return rank.value / graph_.ranks(); }
  const NodeGraph& node() const { return graph_; }

  std::int64_t links() const { return first_fabric_link_ + static_cast<std::int64_t>(fabric_links_.size()); }
  Link link(LinkId id) const;
  /// "node 3: rank 1 to rank 0", "node 3: NIC 2, out", "leaf 4, up", "group 1 to group 2".
  std::string describe(LinkId id) const;
  /// Bytes per second of every link, for FlowNetwork and SharedLinks.
  std::vector<double> capacities() const;

  /// Whether it is a leaf's or a group's link that carries all that the NICs of its nodes of the job can
  /// send: it never slows anybody down.
  bool carries_all(LinkId id) const;

  /// The links that a message takes, in order; none from a rank to itself. Between nodes it leaves by its
  /// rank's NIC and enters by the other rank's, over leaf and spine, or the global links, in between. On
  /// rails it first goes, inside the node, to the rank at the receiver's rail (as NCCL does with PXN).
  std::vector<LinkId> route(Rank from, Rank to) const;

  /// Bytes per second of one message that has the links of its way for itself: of the narrowest.
  double alone_bytes_per_second(const std::vector<LinkId>& route) const;

  /// What was taken to be so because the machine file does not say, one sentence each.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  enum class Fabric : std::uint8_t { flat, fat_tree, rails, dragonfly };

  Topology(NodeGraph graph, std::int64_t nodes) : graph_(std::move(graph)), nodes_(nodes) {}
  Result<void> add_fabric(const Machine& machine, const TopologyOptions& options);
  void add_leaves(const ScaleOut& out, const TopologyOptions& options);
  void add_groups(const ScaleOut& out, const TopologyOptions& options);
  void add_global_links(double bytes_per_second, std::int64_t groups_of_machine, bool minimal);
  void add_between(std::vector<LinkId>& route, std::int64_t from_node, std::int64_t to_node,
                   std::int64_t nic) const;
  void add_inside(std::vector<LinkId>& route, std::int64_t node, const std::vector<LinkId>& links) const;
  LinkId nic_link(std::int64_t node, std::int64_t nic, bool in) const;
  std::int64_t links_per_node() const;
  LinkId fabric_link(std::int64_t at) const { return static_cast<LinkId>(first_fabric_link_ + at); }

  NodeGraph graph_;
  std::int64_t nodes_ = 1;
  Fabric fabric_ = Fabric::flat;
  std::int64_t nodes_per_block_ = 1;  // of a leaf or group
  std::int64_t blocks_ = 1;           // leaves (of a rail) or groups of the job
  bool minimal_ = false;
  std::int64_t first_fabric_link_ = 0;
  std::vector<Link> fabric_links_;
  std::vector<std::string> assumptions_;
};

}  // namespace commlens
