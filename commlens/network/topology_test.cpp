#include "commlens/network/topology.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

Topology topology_of(const std::string& machine, std::int64_t nodes, const TopologyOptions& options = {}) {
  return Topology::of(find_machine(machine).value(), nodes, options).value();
}

std::vector<std::string> way(const Topology& topology, std::int64_t from, std::int64_t to) {
  std::vector<std::string> links;
  for (const LinkId link : topology.route(Rank{from}, Rank{to})) {
    links.push_back(topology.describe(link));
  }
  return links;
}

using Way = std::vector<std::string>;

TEST(Topology, WaysInsideANodeStayThere) {
  const Topology topology = topology_of("frontier", 2);
  EXPECT_EQ(way(topology, 8, 9), (Way{"node 1: rank 8 to rank 9"}));
  EXPECT_EQ(way(topology, 8, 15), (Way{"node 1: rank 8 to rank 14", "node 1: rank 14 to rank 15"}));
  EXPECT_EQ(way(topology, 8, 8), Way{});
  EXPECT_EQ(topology.alone_bytes_per_second(topology.route(Rank{8}, Rank{15})), 100e9);
}

TEST(Topology, WaysInsideAGroupOfFrontierTakeTheNicsOfTheOddGcds) {
  const Topology topology = topology_of("frontier", 128);
  EXPECT_EQ(way(topology, 0, 1018), (Way{"node 0: rank 0 to rank 1", "node 0: NIC 0, out",
                                         "node 127: NIC 1, in", "node 127: rank 1019 to rank 1018"}));
  EXPECT_EQ(topology.alone_bytes_per_second(topology.route(Rank{0}, Rank{1018})), 25e9);
}

TEST(Topology, WaysAcrossGroupsOfFrontierTakeAllGlobalLinks) {
  const Topology topology = topology_of("frontier", 256);
  EXPECT_EQ(way(topology, 1, 1025),
            (Way{"node 0: NIC 0, out", "group 0, out", "group 1, in", "node 128: NIC 0, in"}));
  // 76 other groups, 4 links of 25 GB/s to each.
  const LinkId out = topology.route(Rank{1}, Rank{1025})[1];
  EXPECT_EQ(topology.link(out).kind, LinkKind::group_out);
  EXPECT_EQ(topology.link(out).bytes_per_second, 7600e9);
}

TEST(Topology, MinimalWaysTakeTheLinksBetweenTwoGroups) {
  const Topology topology = topology_of("frontier", 384, {.minimal_routing = true});
  EXPECT_EQ(way(topology, 1, 2049), (Way{"node 0: NIC 0, out", "group 0 to group 2", "node 256: NIC 0, in"}));
  EXPECT_EQ(topology.link(topology.route(Rank{1}, Rank{2049})[1]).bytes_per_second, 100e9);
}

TEST(Topology, ADragonflyOfUnknownShapeIsNeverShort) {
  const Topology topology = topology_of("lumi_g", 1000);
  EXPECT_EQ(way(topology, 1, 7993), (Way{"node 0: NIC 0, out", "node 999: NIC 0, in"}));
  ASSERT_EQ(topology.assumptions().size(), 1u);
  EXPECT_EQ(topology.assumptions()[0],
            "global links of the dragonfly are never short (nodes per group are not known)");
}

TEST(Topology, WaysOnOneLeafDoNotClimb) {
  const Topology topology = topology_of("marenostrum5", 64);
  EXPECT_EQ(way(topology, 1, 4 * 31 + 2), (Way{"node 0: NIC 1, out", "node 31: NIC 2, in"}));
  EXPECT_EQ(way(topology, 1, 4 * 32 + 2),
            (Way{"node 0: NIC 1, out", "leaf 0, up", "leaf 1, down", "node 32: NIC 2, in"}));
}

TEST(Topology, ALeafIsAsWideAsItsNicsWithoutOversubscription) {
  Machine machine = find_machine("marenostrum5").value();
  machine.out.shape = {{"nodes per leaf", Quantity{.value = 10}}};
  const Topology full = Topology::of(machine, 20).value();
  EXPECT_EQ(full.link(full.route(Rank{0}, Rank{40})[1]).bytes_per_second, 10 * 4 * 25e9);
  EXPECT_EQ(full.assumptions().size(), 1u);
  machine.out.shape.emplace_back("oversubscription", Quantity{.value = 4});
  const Topology narrow = Topology::of(machine, 20).value();
  EXPECT_EQ(narrow.link(narrow.route(Rank{0}, Rank{40})[1]).bytes_per_second, 10 * 25e9);
  EXPECT_TRUE(narrow.assumptions().empty());
}

TEST(Topology, OnRailsAMessageGoesToTheReceiversRailInsideItsNode) {
  const Topology topology = topology_of("dgx_h100", 64);
  EXPECT_EQ(way(topology, 2, 8 * 33 + 2),
            (Way{"node 0: NIC 2, out", "leaf 4, up", "leaf 5, down", "node 33: NIC 2, in"}));
  EXPECT_EQ(way(topology, 2, 8 + 5), (Way{"node 0: rank 2 to the switch", "node 0: the switch to rank 5",
                                          "node 0: NIC 5, out", "node 1: NIC 5, in"}));
  EXPECT_EQ(topology.link(topology.route(Rank{2}, Rank{266})[1]).bytes_per_second, 32 * 50e9);
}

TEST(Topology, CapacitiesAreThoseOfTheLinks) {
  const Topology topology = topology_of("dgx_h100", 64);
  const std::vector<double> capacities = topology.capacities();
  ASSERT_EQ(static_cast<std::int64_t>(capacities.size()), topology.links());
  EXPECT_EQ(topology.links(), 64 * (16 + 16) + 8 * 2 * 2);
  for (std::size_t at = 0; at < capacities.size(); ++at) {
    ASSERT_EQ(capacities[at], topology.link(static_cast<LinkId>(at)).bytes_per_second) << at;
  }
}

TEST(Topology, OfEveryMachineWithKnownLinksHasAWayBetweenAnyTwoRanks) {
  for (const char* const name :
       {"alps_gh200", "aurora", "aws_p4d", "aws_p5", "dgx_a100", "dgx_h100", "frontier", "gb200_nvl72",
        "hgx_b200", "hgx_h200", "lumi_g", "marenostrum5", "mi300x", "perlmutter", "vista_gh200"}) {
    SCOPED_TRACE(name);
    const Topology topology = topology_of(name, 3);
    for (std::int64_t to = 1; to < topology.ranks(); ++to) {
      EXPECT_FALSE(topology.route(Rank{0}, Rank{to}).empty()) << to;
    }
  }
}

TEST(Topology, OfATorusIsRefused) {
  const Result<Topology> topology = Topology::of(find_machine("tpu_v5p").value(), 2);
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(
      topology.error().message,
      "tpu_v5p: ways between nodes are known of fat trees, rails and dragonflies, not of scale_out.kind "
      "\"torus\"");
}

TEST(Topology, OfMoreNodesThanThereAreIsRefused) {
  const Result<Topology> topology = Topology::of(find_machine("vista_gh200").value(), 601);
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(topology.error().message, "vista_gh200 has 600 nodes, not 601");
}

TEST(Topology, LinksAboveNicsThatTheyAllCarrySlowNobodyDown) {
  Machine machine = find_machine("vista_gh200").value();
  machine.out.shape = {{"nodes per leaf", Quantity{.value = 4}}, {"oversubscription", Quantity{.value = 2}}};
  const Topology full = Topology::of(machine, 8).value();
  EXPECT_FALSE(full.carries_all(full.route(Rank{0}, Rank{4})[1]));
  const Topology half = Topology::of(machine, 6).value();  // two nodes on the second leaf: 100 GB/s of 100
  EXPECT_FALSE(half.carries_all(half.route(Rank{0}, Rank{4})[1]));
  EXPECT_TRUE(half.carries_all(half.route(Rank{0}, Rank{4})[2]));
  EXPECT_FALSE(half.carries_all(half.route(Rank{0}, Rank{4})[0]));  // a NIC
}

}  // namespace
}  // namespace commlens
