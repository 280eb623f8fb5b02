#include "commlens/network/contention.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace commlens {
namespace {

std::vector<double> speeds_of(const std::vector<double>& capacities,
                              const std::vector<ActiveTransfer>& transfers) {
  SharedLinks links(capacities);
  const std::span<const double> speeds = links.speeds(transfers);
  return {speeds.begin(), speeds.end()};
}

TEST(SharedLinks, TwoThatEachFillALinkHaveHalf) {
  const ActiveTransfer fills{.uses = {{0, 50e9, 1}}};
  EXPECT_EQ(speeds_of({50e9}, {fills, fills}), (std::vector<double>{0.5, 0.5}));
}

TEST(SharedLinks, OneThatNeedsLessThanItsPartKeepsItsSpeed) {
  // 10 of 50 GB/s; the other has the 40 that are left.
  const std::vector<double> speeds = speeds_of({50e9}, {{.uses = {{0, 10e9, 1}}}, {.uses = {{0, 50e9, 1}}}});
  EXPECT_EQ(speeds[0], 1);
  EXPECT_DOUBLE_EQ(speeds[1], 0.8);
}

TEST(SharedLinks, ThreeStreamsAgainstOneHaveThreeQuarters) {
  const std::vector<double> speeds = speeds_of({60e9}, {{.uses = {{0, 20e9, 3}}}, {.uses = {{0, 60e9, 1}}}});
  EXPECT_DOUBLE_EQ(speeds[0], 0.75);
  EXPECT_DOUBLE_EQ(speeds[1], 0.25);
}

TEST(SharedLinks, ARingIsAsFastAsItsSlowestHop) {
  // The ring takes links 0 to 2, a message link 1 only; the ring leaves half of links 0 and 2 free for the
  // third.
  EXPECT_EQ(
      speeds_of({8, 8, 8},
                {{.uses = {{0, 8, 1}, {1, 8, 1}, {2, 8, 1}}}, {.uses = {{1, 8, 1}}}, {.uses = {{2, 4, 1}}}}),
      (std::vector<double>{0.5, 0.5, 1}));
}

TEST(SharedLinks, WhoNeedsMoreThanThereIsCountsAsFillingIt) {
  EXPECT_EQ(speeds_of({8}, {{.uses = {{0, 5, 2}}}}), (std::vector<double>{1}));
}

TEST(SharedLinks, WithoutLinksNothingIsSlower) {
  EXPECT_EQ(speeds_of({8}, {{.uses = {}}, {.uses = {{0, 0, 1}}}}), (std::vector<double>{1, 1}));
}

/// One to ten transfers over up to eight links of random capacities.
struct RandomTransfers {
  std::vector<double> capacities;
  std::vector<ActiveTransfer> transfers;
};

double random_rate(double least, double most) {
  return least + (most - least) * *rc::gen::inRange(0, 1000) / 1000.0;
}

RandomTransfers random_transfers() {
  RandomTransfers made;
  const int links = *rc::gen::inRange(1, 9);
  for (int at = 0; at < links; ++at) {
    made.capacities.push_back(random_rate(1e9, 900e9));
  }
  const int transfers = *rc::gen::inRange(1, 11);
  for (int at = 0; at < transfers; ++at) {
    ActiveTransfer transfer;
    const int uses = *rc::gen::inRange(1, 5);
    for (int use = 0; use < uses; ++use) {
      transfer.uses.push_back({.link = *rc::gen::inRange(0, links),
                               .bytes_per_second = random_rate(1e6, 200e9),
                               .streams = static_cast<double>(*rc::gen::inRange(1, 9))});
    }
    made.transfers.push_back(std::move(transfer));
  }
  return made;
}

/// Bytes per second that each transfer takes of each link at full speed, at most the link's. [transfer][link]
std::vector<std::vector<double>> taken_at_full_speed(const RandomTransfers& made) {
  std::vector<std::vector<double>> taken;
  for (const ActiveTransfer& transfer : made.transfers) {
    std::vector<double>& row = taken.emplace_back(made.capacities.size(), 0);
    for (const LinkStream& use : transfer.uses) {
      row[static_cast<std::size_t>(use.link)] += use.bytes_per_second * use.streams;
    }
    for (std::size_t link = 0; link < row.size(); ++link) {
      row[link] = std::min(row[link], made.capacities[link]);
    }
  }
  return taken;
}

RC_GTEST_PROP(SharedLinksLaws, AloneIsFullSpeed, ()) {
  const RandomTransfers made = random_transfers();
  RC_ASSERT(speeds_of(made.capacities, {made.transfers.front()}) == std::vector<double>{1});
}

RC_GTEST_PROP(SharedLinksLaws, TransfersWithoutACommonLinkDoNotSlowEachOther, ()) {
  RandomTransfers made = random_transfers();
  made.transfers.resize(1);
  made.transfers.push_back(made.transfers.front());
  for (LinkStream& use : made.transfers.back().uses) {
    use.link += static_cast<LinkId>(made.capacities.size());
  }
  std::vector<double> twice = made.capacities;
  twice.insert(twice.end(), made.capacities.begin(), made.capacities.end());
  RC_ASSERT(speeds_of(twice, made.transfers) == (std::vector<double>{1, 1}));
}

RC_GTEST_PROP(SharedLinksLaws, SpeedsAreAboveZeroAndAtMostOne, ()) {
  const RandomTransfers made = random_transfers();
  for (const double speed : speeds_of(made.capacities, made.transfers)) {
    RC_ASSERT(speed > 0);
    RC_ASSERT(speed <= 1);
  }
}

RC_GTEST_PROP(SharedLinksLaws, NoLinkCarriesMoreThanItsCapacity, ()) {
  const RandomTransfers made = random_transfers();
  const std::vector<double> speeds = speeds_of(made.capacities, made.transfers);
  const std::vector<std::vector<double>> taken = taken_at_full_speed(made);
  for (std::size_t link = 0; link < made.capacities.size(); ++link) {
    double carried = 0;
    for (std::size_t at = 0; at < speeds.size(); ++at) {
      carried += speeds[at] * taken[at][link];
    }
    RC_ASSERT(carried <= made.capacities[link] * (1 + 1e-9));
  }
}

RC_GTEST_PROP(SharedLinksLaws, WhoIsSlowedHasAFullLinkWhereNobodysStreamIsFaster, ()) {
  const RandomTransfers made = random_transfers();
  const std::vector<double> speeds = speeds_of(made.capacities, made.transfers);
  const std::vector<std::vector<double>> taken = taken_at_full_speed(made);
  std::vector<double> stream(speeds.size(), 0);  // the fastest of each transfer
  for (std::size_t at = 0; at < speeds.size(); ++at) {
    for (const LinkStream& use : made.transfers[at].uses) {
      stream[at] = std::max(stream[at], speeds[at] * use.bytes_per_second);
    }
  }
  for (std::size_t at = 0; at < speeds.size(); ++at) {
    bool is_held = speeds[at] == 1;
    for (std::size_t link = 0; link < made.capacities.size(); ++link) {
      double carried = 0;
      double fastest = 0;
      for (std::size_t other = 0; other < speeds.size(); ++other) {
        carried += speeds[other] * taken[other][link];
        fastest = std::max(fastest, taken[other][link] > 0 ? stream[other] : 0);
      }
      is_held = is_held || (taken[at][link] > 0 && carried >= made.capacities[link] * (1 - 1e-9) &&
                            stream[at] >= fastest * (1 - 1e-9));
    }
    RC_ASSERT(is_held);
  }
}

RC_GTEST_PROP(SharedLinksLaws, AnotherOrderGivesTheSameSpeeds, ()) {
  RandomTransfers made = random_transfers();
  std::vector<double> speeds = speeds_of(made.capacities, made.transfers);
  std::ranges::reverse(made.transfers);
  std::ranges::reverse(speeds);
  const std::vector<double> again = speeds_of(made.capacities, made.transfers);
  for (std::size_t at = 0; at < speeds.size(); ++at) {
    RC_ASSERT(std::abs(again[at] - speeds[at]) <= 1e-9 * speeds[at]);
  }
}

}  // namespace
}  // namespace commlens
