#include "commlens/network/topology.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr double k_bytes_of_gigabyte = 1e9;

std::optional<double> shape_of(const ScaleOut& out, std::string_view name) {
  for (const auto& [key, quantity] : out.shape) {
    if (key == name && quantity.value > 0) {
      return quantity.value;
    }
  }
  return std::nullopt;
}

std::int64_t blocks_of(std::int64_t nodes, std::int64_t nodes_per_block) {
  return (nodes + nodes_per_block - 1) / nodes_per_block;
}

std::string node_end(std::int64_t rank) { return rank < 0 ? "the switch" : fmt::format("rank {}", rank); }

}  // namespace

bool is_between_nodes(LinkKind kind) { return kind > LinkKind::nic_in; }

std::int64_t Topology::links_per_node() const {
  return static_cast<std::int64_t>(graph_.links().size() + 2 * graph_.nics().size());
}

LinkId Topology::nic_link(std::int64_t node, std::int64_t nic, bool in) const {
  return static_cast<LinkId>(node * links_per_node() + static_cast<std::int64_t>(graph_.links().size()) +
                             2 * nic + (in ? 1 : 0));
}

Result<Topology> Topology::of(const Machine& machine, std::int64_t nodes, const TopologyOptions& options) {
  COMMLENS_CHECK(nodes > 0 && options.nodes_per_leaf > 0, "a job has nodes, a leaf too");
  if (machine.nodes && static_cast<double>(nodes) > machine.nodes->value) {
    return failure(fmt::format("{} has {} nodes, not {}", machine.name, machine.nodes->value, nodes));
  }
  return NodeGraph::of(machine).and_then([&](NodeGraph graph) -> Result<Topology> {
    Topology topology(std::move(graph), nodes);
    if (static_cast<double>(nodes) * static_cast<double>(topology.links_per_node()) >
        std::numeric_limits<LinkId>::max() / 2.0) {
      return failure(fmt::format("{} nodes have too many links to number", nodes));
    }
    topology.first_fabric_link_ = nodes * topology.links_per_node();
    return topology.add_fabric(machine, options).map([&] { return std::move(topology); });
  });
}

Result<void> Topology::add_fabric(const Machine& machine, const TopologyOptions& options) {
  const ScaleOut& out = machine.out;
  if (nodes_ == 1) {
    return {};
  }
  if (graph_.nics().empty()) {
    return failure(
        fmt::format("{}: scale_out lacks nics or bandwidth; add them to the machine file, with their source",
                    machine.name));
  }
  if (out.kind == "fat tree" || out.kind == "rails") {
    fabric_ = out.kind == "rails" ? Fabric::rails : Fabric::fat_tree;
    add_leaves(out, options);
  } else if (out.kind == "dragonfly") {
    fabric_ = Fabric::dragonfly;
    add_groups(out, options);
  } else {
    return failure(fmt::format(
        "{}: ways between nodes are known of fat trees, rails and dragonflies, not of scale_out.kind \"{}\"",
        machine.name, out.kind));
  }
  return {};
}

void Topology::add_leaves(const ScaleOut& out, const TopologyOptions& options) {
  const std::optional<double> per_leaf = shape_of(out, "nodes per leaf");
  const double over = shape_of(out, "oversubscription").value_or(1);
  nodes_per_block_ = per_leaf ? static_cast<std::int64_t>(*per_leaf) : options.nodes_per_leaf;
  blocks_ = blocks_of(nodes_, nodes_per_block_);
  if (!shape_of(out, "oversubscription")) {
    assumptions_.emplace_back("the tree above the leaf switches is as wide as the NICs (full bisection)");
  }
  if (!per_leaf && over > 1) {
    assumptions_.push_back(fmt::format("a leaf switch has {} nodes", nodes_per_block_));
  }
  double of_node = 0;
  for (const NodeNic& nic : graph_.nics()) {
    of_node += nic.bytes_per_second;
  }
  const auto nics = static_cast<std::int64_t>(graph_.nics().size());
  const std::int64_t rails = fabric_ == Fabric::rails ? nics : 1;
  for (std::int64_t rail = 0; rail < rails; ++rail) {
    const double width =
        (rails > 1 ? graph_.nics()[static_cast<std::size_t>(rail)].bytes_per_second : of_node) / over;
    for (std::int64_t leaf = 0; leaf < blocks_; ++leaf) {
      const std::int64_t number = rail * blocks_ + leaf;
      const double bytes_per_second = width * static_cast<double>(nodes_per_block_);
      fabric_links_.push_back({LinkKind::leaf_up, bytes_per_second, number, number});
      fabric_links_.push_back({LinkKind::leaf_down, bytes_per_second, number, number});
    }
  }
}

void Topology::add_groups(const ScaleOut& out, const TopologyOptions& options) {
  const std::optional<double> per_group = shape_of(out, "nodes per group");
  const std::optional<double> per_pair = shape_of(out, "links per pair of groups");
  if (!per_group || !per_pair) {
    assumptions_.push_back(fmt::format("global links of the dragonfly are never short ({} not known)",
                                       per_group ? "links per pair of groups are" : "nodes per group are"));
    fabric_ = Fabric::flat;
    return;
  }
  assumptions_.emplace_back("a global link is as fast as a NIC, and links inside a group are never short");
  nodes_per_block_ = static_cast<std::int64_t>(*per_group);
  blocks_ = blocks_of(nodes_, nodes_per_block_);
  minimal_ = options.minimal_routing;
  const auto groups = static_cast<std::int64_t>(shape_of(out, "groups").value_or(0));
  add_global_links(out.bandwidth->value * k_bytes_of_gigabyte * *per_pair, std::max(groups, blocks_),
                   minimal_);
}

void Topology::add_global_links(double bytes_per_second, std::int64_t groups_of_machine, bool minimal) {
  if (blocks_ == 1) {
    return;
  }
  if (!minimal) {
    assumptions_.emplace_back(
        "messages between groups are spread over all global links (ideal adaptive routing)");
    const double all = bytes_per_second * static_cast<double>(groups_of_machine - 1);
    for (std::int64_t group = 0; group < blocks_; ++group) {
      fabric_links_.push_back({LinkKind::group_out, all, group, group});
      fabric_links_.push_back({LinkKind::group_in, all, group, group});
    }
    return;
  }
  for (std::int64_t from = 0; from < blocks_; ++from) {  // from a group to itself: never taken
    for (std::int64_t to = 0; to < blocks_; ++to) {
      fabric_links_.push_back({LinkKind::global, bytes_per_second, from, to});
    }
  }
}

Link Topology::link(LinkId id) const {
  COMMLENS_CHECK(id >= 0 && id < links(), "the link is one of the topology");
  if (id >= first_fabric_link_) {
    return fabric_links_[static_cast<std::size_t>(id - first_fabric_link_)];
  }
  const std::int64_t node = id / links_per_node();
  const auto at = static_cast<std::size_t>(id % links_per_node());
  const std::int64_t first = node * graph_.ranks();
  if (at < graph_.links().size()) {
    const NodeLink& inside = graph_.links()[at];
    return {.kind = LinkKind::scale_up,
            .bytes_per_second = inside.bytes_per_second,
            .from = inside.from < 0 ? -1 : first + inside.from,
            .to = inside.to < 0 ? -1 : first + inside.to};
  }
  const std::size_t nic = (at - graph_.links().size()) / 2;
  const bool in = (at - graph_.links().size()) % 2 == 1;
  const std::int64_t rank = first + graph_.rank_at(static_cast<std::int64_t>(nic));
  return {.kind = in ? LinkKind::nic_in : LinkKind::nic_out,
          .bytes_per_second = graph_.nics()[nic].bytes_per_second,
          .from = rank,
          .to = rank};
}

std::string Topology::describe(LinkId id) const {
  const Link of = link(id);
  const std::int64_t node = id / std::max<std::int64_t>(links_per_node(), 1);
  const std::int64_t nic =
      (id % std::max<std::int64_t>(links_per_node(), 1) - static_cast<std::int64_t>(graph_.links().size())) /
      2;
  switch (of.kind) {
    case LinkKind::scale_up:
      return fmt::format("node {}: {} to {}", node, node_end(of.from), node_end(of.to));
    case LinkKind::nic_out:
      return fmt::format("node {}: NIC {}, out", node, nic);
    case LinkKind::nic_in:
      return fmt::format("node {}: NIC {}, in", node, nic);
    case LinkKind::leaf_up:
      return fmt::format("leaf {}, up", of.from);
    case LinkKind::leaf_down:
      return fmt::format("leaf {}, down", of.from);
    case LinkKind::group_out:
      return fmt::format("group {}, out", of.from);
    case LinkKind::group_in:
      return fmt::format("group {}, in", of.from);
    case LinkKind::global:
      return fmt::format("group {} to group {}", of.from, of.to);
  }
  return {};
}

bool Topology::carries_all(LinkId id) const {
  if (id < first_fabric_link_) {
    return false;
  }
  const Link of = link(id);
  if (of.kind == LinkKind::global) {
    return false;
  }
  const auto block = of.from % blocks_;
  const std::int64_t nodes = std::min(nodes_per_block_, nodes_ - block * nodes_per_block_);
  double of_node = 0;
  for (std::size_t nic = 0; nic < graph_.nics().size(); ++nic) {
    const bool is_below = fabric_ != Fabric::rails || static_cast<std::int64_t>(nic) == of.from / blocks_;
    of_node += is_below ? graph_.nics()[nic].bytes_per_second : 0;
  }
  constexpr double rounding = 1e-12;
  return of.bytes_per_second >= of_node * static_cast<double>(nodes) * (1 - rounding);
}

std::vector<double> Topology::capacities() const {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(links()));
  for (std::int64_t node = 0; node < nodes_; ++node) {
    for (const NodeLink& inside : graph_.links()) {
      all.push_back(inside.bytes_per_second);
    }
    for (const NodeNic& nic : graph_.nics()) {
      all.insert(all.end(), 2, nic.bytes_per_second);
    }
  }
  for (const Link& between : fabric_links_) {
    all.push_back(between.bytes_per_second);
  }
  return all;
}

void Topology::add_inside(std::vector<LinkId>& route, std::int64_t node,
                          const std::vector<LinkId>& links) const {
  for (const LinkId inside : links) {
    route.push_back(static_cast<LinkId>(node * links_per_node() + inside));
  }
}

void Topology::add_between(std::vector<LinkId>& route, std::int64_t from_node, std::int64_t to_node,
                           std::int64_t nic) const {
  const std::int64_t from = from_node / nodes_per_block_;
  const std::int64_t to = to_node / nodes_per_block_;
  if (from == to || fabric_ == Fabric::flat) {
    return;
  }
  if (fabric_ == Fabric::dragonfly && minimal_) {
    route.push_back(fabric_link(from * blocks_ + to));
    return;
  }
  const std::int64_t first = fabric_ == Fabric::rails ? nic * blocks_ : 0;
  route.push_back(fabric_link(2 * (first + from)));
  route.push_back(fabric_link(2 * (first + to) + 1));
}

std::vector<LinkId> Topology::route(Rank from, Rank to) const {
  COMMLENS_CHECK(from.value >= 0 && from.value < ranks() && to.value >= 0 && to.value < ranks(),
                 "messages are between ranks of the job");
  const std::int64_t from_node = node_of(from);
  const std::int64_t to_node = node_of(to);
  const std::int64_t sender = from.value % graph_.ranks();
  const std::int64_t receiver = to.value % graph_.ranks();
  std::vector<LinkId> links;
  if (from_node == to_node) {
    add_inside(links, from_node, graph_.route(sender, receiver));
    return links;
  }
  const std::int64_t nic_in = graph_.nic_of(receiver);
  const std::int64_t nic_out = fabric_ == Fabric::rails ? nic_in : graph_.nic_of(sender);
  add_inside(links, from_node, graph_.route_to_nic(sender, nic_out));
  links.push_back(nic_link(from_node, nic_out, false));
  add_between(links, from_node, to_node, nic_in);
  links.push_back(nic_link(to_node, nic_in, true));
  add_inside(links, to_node, graph_.route_from_nic(nic_in, receiver));
  return links;
}

double Topology::alone_bytes_per_second(const std::vector<LinkId>& route) const {
  double least = std::numeric_limits<double>::infinity();
  for (const LinkId id : route) {
    least = std::min(least, link(id).bytes_per_second);
  }
  return least;
}

}  // namespace commlens
