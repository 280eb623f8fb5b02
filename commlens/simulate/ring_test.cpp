#include "commlens/simulate/ring.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// Links of 100 GB/s in domains of 8, 10 GB/s a device between them.
RunHardware round_hardware() {
  RunHardware hardware;
  hardware.link = 100e9;
  hardware.network = 10e9;
  hardware.domain = 8;
  hardware.node = 8;
  return hardware;
}

Coefficients full_shares() {
  Coefficients with;
  with[Coefficient::link_share] = 1;
  with[Coefficient::network_share] = 1;
  with[Coefficient::hop] = 10;
  with[Coefficient::exchange] = 2;
  return with;
}

TEST(Ring, OfOneRankOrNothingTakesNoTime) {
  EXPECT_EQ(ring_seconds(round_hardware(), full_shares(), {1, 1}, 1e9), 0);
  EXPECT_EQ(ring_seconds(round_hardware(), full_shares(), {8, 8}, 0), 0);
}

TEST(Ring, InADomainMovesAllButItsOwnShare) {
  // 7/8 of 8 GB over 100 GB/s, and 15 us.
  EXPECT_DOUBLE_EQ(ring_seconds(round_hardware(), full_shares(), {8, 8}, 8e9), 0.07 + 15e-6);
}

TEST(Ring, BetweenDomainsUsesTheNicsOfAllItsMembersThere) {
  // 15/16 of 16 GB over eight NICs of 10 GB/s, and one further domain.
  EXPECT_DOUBLE_EQ(ring_seconds(round_hardware(), full_shares(), {16, 8}, 16e9), 15.0 / 80 + 10e-6);
  // One member a domain: one NIC.
  EXPECT_DOUBLE_EQ(ring_seconds(round_hardware(), full_shares(), {2, 1}, 2e9), 0.1 + 10e-6);
}

TEST(Ring, GroupsOfFarRanksHaveFewInADomain) {
  EXPECT_EQ(ring_group(round_hardware(), 16, 1).in_domain, 8);
  EXPECT_EQ(ring_group(round_hardware(), 16, 4).in_domain, 2);
  EXPECT_EQ(ring_group(round_hardware(), 16, 64).in_domain, 1);
  EXPECT_EQ(ring_group(round_hardware(), 2, 1).in_domain, 2);
}

TEST(Exchange, SendsInsideAndOutsideAtTheirOwnRates) {
  // 16 GB to 16 ranks, 7 of them inside: twice (15 us + 7/100 + 8/10 s).
  EXPECT_DOUBLE_EQ(exchange_seconds(round_hardware(), full_shares(), {16, 8}, 16e9),
                   2 * (15e-6 + 0.07 + 0.8));
}

}  // namespace
}  // namespace commlens
