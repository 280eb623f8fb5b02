#include "commlens/network/node_graph.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

NodeGraph node_of(const std::string& machine) { return NodeGraph::of(find_machine(machine).value()).value(); }

/// Ranks that a way passes, from its first to its last.
std::vector<std::int64_t> ranks_on(const NodeGraph& node, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> ranks = {from};
  for (const LinkId link : node.route(from, to)) {
    EXPECT_EQ(node.links()[static_cast<std::size_t>(link)].from, ranks.back());
    ranks.push_back(node.links()[static_cast<std::size_t>(link)].to);
  }
  return ranks;
}

TEST(NodeGraph, EvenGcdsOfFrontierHaveSevenLinksOf50AndOddOnesSix) {
  const NodeGraph node = node_of("frontier");
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    SCOPED_TRACE(rank);
    double out = 0;
    double in = 0;
    for (const NodeLink& link : node.links()) {
      out += link.from == rank ? link.bytes_per_second : 0;
      in += link.to == rank ? link.bytes_per_second : 0;
    }
    EXPECT_EQ(out, rank % 2 == 0 ? 7 * 50e9 : 6 * 50e9);
    EXPECT_EQ(in, out);
  }
}

TEST(NodeGraph, OfFrontierHasDiameterTwo) {
  const NodeGraph node = node_of("frontier");
  std::size_t longest = 0;
  for (std::int64_t from = 0; from < 8; ++from) {
    for (std::int64_t to = 0; to < 8; ++to) {
      EXPECT_EQ(node.route(from, to).empty(), from == to);
      EXPECT_EQ(ranks_on(node, from, to).back(), to);
      longest = std::max(longest, node.route(from, to).size());
    }
  }
  EXPECT_EQ(longest, 2u);
}

TEST(NodeGraph, WaysOfFrontierTakeTheWiderOfTwo) {
  const NodeGraph node = node_of("frontier");
  EXPECT_EQ(ranks_on(node, 0, 1), (std::vector<std::int64_t>{0, 1}));
  // 0-6 (100) and 6-4 (50), or 0-2 (50) and 2-4 (100): equally wide, the lower rank. 0 to 7: 0-6 and 6-7.
  EXPECT_EQ(ranks_on(node, 0, 4), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(ranks_on(node, 0, 7), (std::vector<std::int64_t>{0, 6, 7}));
}

TEST(NodeGraph, EachEvenGcdOfFrontierReachesItsNeighboursNic) {
  const NodeGraph node = node_of("frontier");
  ASSERT_EQ(node.nics().size(), 4u);
  EXPECT_EQ(node.nics()[2].bytes_per_second, 25e9);
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(node.nic_of(rank), rank / 2);
    EXPECT_EQ(node.rank_at(rank / 2), rank / 2 * 2 + 1);
    EXPECT_EQ(node.route_to_nic(rank, rank / 2).size(), rank % 2 == 0 ? 1u : 0u);
    EXPECT_EQ(node.route_from_nic(rank / 2, rank).size(), rank % 2 == 0 ? 1u : 0u);
  }
}

TEST(NodeGraph, OfASwitchHasAPortOfEachRankInAndOut) {
  const NodeGraph node = node_of("dgx_h100");
  EXPECT_EQ(node.links().size(), 16u);
  EXPECT_EQ(node.links()[0].bytes_per_second, 450e9);
  EXPECT_EQ(node.route(3, 5), (std::vector<LinkId>{6, 11}));
  EXPECT_EQ(node.nic_of(5), 5);
}

TEST(NodeGraph, OfAMeshDividesABandwidthByTheOtherRanks) {
  const NodeGraph node = node_of("alps_gh200");
  EXPECT_EQ(node.links().size(), 12u);
  EXPECT_EQ(node.links()[0].bytes_per_second, 150e9);
  EXPECT_EQ(ranks_on(node, 3, 1), (std::vector<std::int64_t>{3, 1}));
}

TEST(NodeGraph, RanksShareNicsThatAreFewer) {
  const NodeGraph node = node_of("aws_p4d");
  ASSERT_EQ(node.nics().size(), 4u);
  EXPECT_EQ(node.nic_of(2), 1);
  EXPECT_EQ(node.nic_of(3), 1);
  EXPECT_TRUE(node.route_to_nic(3, 1).empty());
}

TEST(NodeGraph, NicsThatAreMoreThanRanksAreStriped) {
  const NodeGraph node = node_of("tpu_v5p");
  ASSERT_EQ(node.nics().size(), 4u);
  EXPECT_EQ(node.nics()[0].bytes_per_second, 150e9);  // 6 of 100 for 4 ranks
}

TEST(NodeGraph, IsRefusedWhereALinkIsMissing) {
  Machine machine = find_machine("frontier").value();
  std::erase_if(machine.up.classes, [](const LinkClass& links) { return links.name != "quad"; });
  const Result<NodeGraph> node = NodeGraph::of(machine);
  ASSERT_FALSE(node.has_value());
  EXPECT_EQ(node.error().message,
            "frontier: no link of scale_up.classes leads from rank 0 to rank 2; add it to the machine file");
}

}  // namespace
}  // namespace commlens
