#include "commlens/network/node_graph.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr double k_gigabyte = 1e9;
constexpr double k_any_width = std::numeric_limits<double>::infinity();

/// How good a way is; the least is the best.
struct WayCost {
  std::int64_t hops = std::numeric_limits<std::int64_t>::max();
  double width = 0;  // bytes per second of its narrowest link
  friend bool operator<(const WayCost& a, const WayCost& b) {
    return std::tuple(a.hops, -a.width) < std::tuple(b.hops, -b.width);
  }
};

}  // namespace

NodeGraph::NodeGraph(std::int64_t ranks)
    : ranks_(ranks),
      routes_(static_cast<std::size_t>(ranks * ranks)),
      nic_of_(static_cast<std::size_t>(ranks), -1) {}

std::size_t NodeGraph::place(std::int64_t from, std::int64_t to) const {
  COMMLENS_CHECK(from >= 0 && from < ranks_ && to >= 0 && to < ranks_, "ranks of the node are asked for");
  return static_cast<std::size_t>(from * ranks_ + to);
}

const std::vector<LinkId>& NodeGraph::route(std::int64_t from, std::int64_t to) const {
  return routes_[place(from, to)];
}

std::int64_t NodeGraph::rank_at(std::int64_t nic) const {
  if (const std::int64_t owner = nics_[static_cast<std::size_t>(nic)].owner; owner >= 0) {
    return owner;
  }
  const auto first = std::ranges::find(nic_of_, nic);
  COMMLENS_CHECK(first != nic_of_.end(), "each NIC without an owner is dealt to a rank");
  return first - nic_of_.begin();
}

const std::vector<LinkId>& NodeGraph::route_to_nic(std::int64_t rank, std::int64_t nic) const {
  return nic_of(rank) == nic && nics_[static_cast<std::size_t>(nic)].owner < 0 ? route(rank, rank)
                                                                               : route(rank, rank_at(nic));
}

const std::vector<LinkId>& NodeGraph::route_from_nic(std::int64_t nic, std::int64_t rank) const {
  return nic_of(rank) == nic && nics_[static_cast<std::size_t>(nic)].owner < 0 ? route(rank, rank)
                                                                               : route(rank_at(nic), rank);
}

void NodeGraph::add_ports(double bytes_per_second) {
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    links_.push_back({.bytes_per_second = bytes_per_second, .from = rank, .to = -1});
    links_.push_back({.bytes_per_second = bytes_per_second, .from = -1, .to = rank});
  }
  for (std::int64_t from = 0; from < ranks_; ++from) {
    for (std::int64_t to = 0; to < ranks_; ++to) {
      if (from != to) {
        routes_[place(from, to)] = {static_cast<LinkId>(2 * from), static_cast<LinkId>(2 * to + 1)};
      }
    }
  }
}

void NodeGraph::add_pair(std::int64_t a, std::int64_t b, double bytes_per_second) {
  links_.push_back({.bytes_per_second = bytes_per_second, .from = a, .to = b});
  links_.push_back({.bytes_per_second = bytes_per_second, .from = b, .to = a});
}

void NodeGraph::add_mesh(double bytes_per_second) {
  for (std::int64_t a = 0; a < ranks_; ++a) {
    for (std::int64_t b = a + 1; b < ranks_; ++b) {
      add_pair(a, b, bytes_per_second / static_cast<double>(ranks_ - 1));
    }
  }
  find_routes();
}

void NodeGraph::find_routes_from(std::int64_t from) {
  std::vector<WayCost> costs(static_cast<std::size_t>(ranks_));
  costs[static_cast<std::size_t>(from)] = {.hops = 0, .width = k_any_width};
  for (std::int64_t hops = 1; hops < ranks_; ++hops) {
    std::vector<WayCost> longer = costs;
    std::vector<std::vector<LinkId>> ways(static_cast<std::size_t>(ranks_));
    for (std::size_t at = 0; at < links_.size(); ++at) {
      const NodeLink& link = links_[at];
      const WayCost& before = costs[static_cast<std::size_t>(link.from)];
      const WayCost cost{.hops = hops, .width = std::min(before.width, link.bytes_per_second)};
      if (before.hops == hops - 1 && cost < longer[static_cast<std::size_t>(link.to)]) {
        longer[static_cast<std::size_t>(link.to)] = cost;
        std::vector<LinkId>& way = ways[static_cast<std::size_t>(link.to)];
        way = route(from, link.from);
        way.push_back(static_cast<LinkId>(at));
      }
    }
    for (std::int64_t to = 0; to < ranks_; ++to) {
      if (!ways[static_cast<std::size_t>(to)].empty()) {
        routes_[place(from, to)] = std::move(ways[static_cast<std::size_t>(to)]);
      }
    }
    costs = std::move(longer);
  }
}

void NodeGraph::find_routes() {
  std::ranges::stable_sort(links_, {}, [](const NodeLink& link) { return std::tuple(link.from, link.to); });
  for (std::int64_t from = 0; from < ranks_; ++from) {
    find_routes_from(from);
  }
}

void NodeGraph::add_nics(const ScaleOut& out) {
  if (!out.nics || !out.bandwidth || out.nics->value < 1) {
    return;
  }
  const double each = out.bandwidth->value * k_gigabyte;
  if (!out.owners.empty()) {
    std::map<std::int64_t, double> of_owner;
    for (const std::int64_t owner : out.owners) {
      of_owner[owner] += each;
    }
    for (const auto& [owner, bytes_per_second] : of_owner) {
      nics_.push_back({.bytes_per_second = bytes_per_second, .owner = owner});
    }
    return;
  }
  const auto count = std::min(static_cast<std::int64_t>(out.nics->value), ranks_);
  for (std::int64_t nic = 0; nic < count; ++nic) {
    nics_.push_back({.bytes_per_second = each * out.nics->value / static_cast<double>(count)});
  }
}

std::int64_t NodeGraph::nearest_nic(std::int64_t rank, const std::vector<std::int64_t>& taken) const {
  std::int64_t best = 0;
  auto best_cost = std::tuple(std::numeric_limits<std::size_t>::max(), 0.0, std::int64_t{0});
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    const std::vector<LinkId>& way = route(rank, nics_[nic].owner);
    double width = k_any_width;
    for (const LinkId link : way) {
      width = std::min(width, links_[static_cast<std::size_t>(link)].bytes_per_second);
    }
    if (const auto cost = std::tuple(way.size(), -width, taken[nic]); cost < best_cost) {
      best_cost = cost;
      best = static_cast<std::int64_t>(nic);
    }
  }
  return best;
}

void NodeGraph::choose_nics() {
  if (nics_.empty()) {
    return;
  }
  const auto count = static_cast<std::int64_t>(nics_.size());
  std::vector<std::int64_t> taken(nics_.size(), 0);
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    const std::int64_t nic = nics_.front().owner < 0 ? rank * count / ranks_ : nearest_nic(rank, taken);
    nic_of_[static_cast<std::size_t>(rank)] = nic;
    ++taken[static_cast<std::size_t>(nic)];
  }
}

Result<NodeGraph> NodeGraph::of(const Machine& machine) {
  const auto ranks = static_cast<std::int64_t>(machine.ranks_per_node.value);
  NodeGraph graph(ranks);
  const ScaleUp& up = machine.up;
  if (ranks > 1 && !up.classes.empty()) {
    for (const LinkClass& links : up.classes) {
      for (const auto& [a, b] : links.pairs) {
        graph.add_pair(a, b, links.bandwidth.value * k_gigabyte);
      }
    }
    graph.find_routes();
  } else if (ranks > 1) {
    if (!up.bandwidth || up.bandwidth->value <= 0) {
      return failure(fmt::format("{}: scale_up has no bandwidth; add it to the machine file, with its source",
                                 machine.name));
    }
    if (up.kind == "mesh") {
      graph.add_mesh(up.bandwidth->value * k_gigabyte);
    } else {
      graph.add_ports(up.bandwidth->value * k_gigabyte);
    }
  }
  for (std::int64_t to = 1; to < ranks; ++to) {
    if (graph.route(0, to).empty()) {
      return failure(fmt::format(
          "{}: no link of scale_up.classes leads from rank 0 to rank {}; add it to the machine file",
          machine.name, to));
    }
  }
  graph.add_nics(machine.out);
  graph.choose_nics();
  return graph;
}

}  // namespace commlens
