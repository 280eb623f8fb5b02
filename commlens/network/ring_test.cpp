#include "commlens/network/ring.hpp"

#include <cstdint>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr RingHop k_hop{.latency_seconds = 1e-6, .bandwidth = {12.5e9}};
constexpr double k_microsecond = 1e-6;

/// The same ring as events: a rank that is ready for a step tells its right neighbour and itself; the later
/// of the two starts the transfer, whose end makes the receiver ready for the next step.
std::vector<double> played_ring(const std::vector<double>& starts, const std::vector<double>& hops,
                                std::int64_t steps) {
  using Event = std::tuple<double, std::size_t, std::int64_t>;  // time, rank, step it is ready for
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<double> ends(starts.size());
  std::vector<std::vector<int>> arrived(starts.size(), std::vector<int>(static_cast<std::size_t>(steps)));
  for (std::size_t rank = 0; rank < starts.size(); ++rank) {
    events.emplace(starts[rank], rank, 0);
  }
  while (!events.empty()) {
    const auto [time, rank, step] = events.top();
    events.pop();
    if (step == steps) {
      ends[rank] = time;
      continue;
    }
    for (const std::size_t receiver : {rank, (rank + 1) % starts.size()}) {
      if (++arrived[receiver][static_cast<std::size_t>(step)] == 2) {
        events.emplace(time + hops[hops.size() == 1 ? 0 : receiver], receiver, step + 1);
      }
    }
  }
  return ends;
}

std::vector<double> random_seconds(std::mt19937_64& random, std::size_t count, double most) {
  std::uniform_real_distribution<double> seconds(0, most);
  std::vector<double> all(count);
  for (double& each : all) {
    each = seconds(random);
  }
  return all;
}

TEST(Ring, AllReduceTakesTheClosedForm) {
  // 126 steps of 1 + 16,384 / 12,500 us; 2,046 of 1 + 1,024 / 12,500; 16,382 of 1 + 128 / 12,500.
  constexpr Bytes mebibyte{1 << 20};
  EXPECT_NEAR(ring_all_reduce_seconds(mebibyte, 64, k_hop) / k_microsecond, 291.150720, 1e-9);
  EXPECT_NEAR(ring_all_reduce_seconds(mebibyte, 1024, k_hop) / k_microsecond, 2213.60832, 1e-9);
  EXPECT_NEAR(ring_all_reduce_seconds(mebibyte, 8192, k_hop) / k_microsecond, 16549.75168, 1e-8);
}

TEST(Ring, OfOneRankTakesNoTime) { EXPECT_EQ(ring_all_reduce_seconds(Bytes{1 << 20}, 1, k_hop), 0); }

TEST(Ring, ThatStartsTogetherTakesTheClosedFormStepByStep) {
  const std::vector<double> starts(64, 0.0);
  const std::vector<double> hops = {hop_seconds(k_hop, 16384)};
  for (const double end : staggered_ring_ends(starts, hops, ring_all_reduce_steps(64))) {
    EXPECT_NEAR(end / k_microsecond, 291.150720, 1e-9);
  }
}

TEST(Ring, WaitsForItsLastRank) {
  // Rank 2 is 10 late; each of the three others hears of it after as many steps as it is away.
  const std::vector<double> starts = {0, 0, 10, 0};
  EXPECT_EQ(staggered_ring_ends(starts, std::vector<double>{1}, 1), (std::vector<double>{1, 1, 11, 11}));
  EXPECT_EQ(staggered_ring_ends(starts, std::vector<double>{1}, 2), (std::vector<double>{12, 2, 12, 12}));
  EXPECT_EQ(staggered_ring_ends(starts, std::vector<double>{1}, 3), (std::vector<double>{13, 13, 13, 13}));
  EXPECT_EQ(staggered_ring_ends(starts, std::vector<double>{1}, 6), (std::vector<double>{16, 16, 16, 16}));
}

TEST(Ring, ASlowHopHoldsAllBack) {
  // Into rank 0 a hop takes 3, the others 1. From the first step on, each rank waits for what came over it.
  const std::vector<double> starts = {0, 0, 0};
  EXPECT_EQ(staggered_ring_ends(starts, std::vector<double>{3, 1, 1}, 4), (std::vector<double>{12, 10, 8}));
}

TEST(Ring, WithStaggeredStartsIsTheRingOfAnEventQueueBitForBit) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::size_t ranks = 2 + random() % 70;
    const std::int64_t steps = seed % 2 == 0 ? ring_all_reduce_steps(static_cast<std::int64_t>(ranks))
                                             : ring_gather_steps(static_cast<std::int64_t>(ranks));
    const std::vector<double> starts = random_seconds(random, ranks, 1e-3);
    const std::vector<double> hops = random_seconds(random, seed % 3 == 0 ? 1 : ranks, 1e-5);
    EXPECT_EQ(staggered_ring_ends(starts, hops, steps), played_ring(starts, hops, steps));
  }
}

}  // namespace
}  // namespace commlens
