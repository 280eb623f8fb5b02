#include "commlens/network/transfers.hpp"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

std::vector<Rank> ranks_from(std::int64_t first, std::int64_t last) {
  std::vector<Rank> ranks;
  for (std::int64_t rank = first; rank < last; ++rank) {
    ranks.push_back(Rank{rank});
  }
  return ranks;
}

/// Bytes per second of all streams over the links of one kind, by number of streams.
std::map<double, double> streams_of(const Topology& topology, const ActiveTransfer& transfer, LinkKind kind) {
  std::map<double, double> links;
  for (const LinkStream& use : transfer.uses) {
    if (topology.link(use.link).kind == kind) {
      ++links[use.streams];
    }
  }
  return links;
}

TEST(Transfers, AMessageTakesEachLinkOfItsWayOnce) {
  const Topology topology = Topology::of(find_machine("dgx_h100").value(), 2).value();
  const ActiveTransfer transfer = message_transfer(topology, Rank{2}, Rank{10}, 40e9);
  ASSERT_EQ(transfer.uses.size(), 2u);
  EXPECT_EQ(topology.describe(transfer.uses[0].link), "node 0: NIC 2, out");
  EXPECT_EQ(transfer.uses[0].bytes_per_second, 40e9);
  EXPECT_EQ(transfer.uses[0].streams, 1);
}

TEST(Transfers, ARingOfOneChannelLeavesEachNodeOnce) {
  const Topology topology = Topology::of(find_machine("marenostrum5").value(), 4).value();
  const ActiveTransfer transfer = ring_transfer(topology, ranks_from(0, 16), 25e9);
  EXPECT_EQ(streams_of(topology, transfer, LinkKind::nic_out), (std::map<double, double>{{1, 4}}));
  EXPECT_EQ(streams_of(topology, transfer, LinkKind::scale_up), (std::map<double, double>{{1, 12}}));
}

TEST(Transfers, ARingOfAChannelForEachRankTakesAllNics) {
  const Topology topology = Topology::of(find_machine("marenostrum5").value(), 4).value();
  const ActiveTransfer transfer = ring_transfer(topology, ranks_from(0, 16), 100e9, 4);
  EXPECT_EQ(streams_of(topology, transfer, LinkKind::nic_out), (std::map<double, double>{{1, 16}}));
  EXPECT_EQ(streams_of(topology, transfer, LinkKind::nic_in), (std::map<double, double>{{1, 16}}));
  EXPECT_EQ(transfer.uses[0].bytes_per_second, 25e9);
}

TEST(Transfers, AnExchangeTakesEachPortOncePerPeer) {
  const Topology topology = Topology::of(find_machine("dgx_h100").value(), 1).value();
  const ActiveTransfer transfer = exchange_transfer(topology, ranks_from(0, 8), 10e9);
  EXPECT_EQ(streams_of(topology, transfer, LinkKind::scale_up), (std::map<double, double>{{7, 16}}));
}

TEST(Transfers, GroupsOfDifferentRailsDoNotSlowEachOther) {
  const Topology topology = Topology::of(find_machine("dgx_h100").value(), 4).value();
  const std::vector<Rank> first = {Rank{0}, Rank{8}, Rank{16}, Rank{24}};
  const std::vector<Rank> second = {Rank{1}, Rank{9}, Rank{17}, Rank{25}};
  SharedLinks links(topology.capacities());
  const std::vector<ActiveTransfer> apart = {ring_transfer(topology, first, 50e9),
                                             ring_transfer(topology, second, 50e9)};
  EXPECT_EQ(links.speeds(apart)[0], 1);
  const std::vector<ActiveTransfer> together = {ring_transfer(topology, first, 50e9),
                                                ring_transfer(topology, first, 50e9)};
  EXPECT_EQ(links.speeds(together)[0], 0.5);
}

}  // namespace
}  // namespace commlens
