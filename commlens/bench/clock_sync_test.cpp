#include "commlens/bench/clock_sync.hpp"

#include <atomic>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/transport/thread_ranks.hpp"

namespace commlens::bench {
namespace {

TEST(ClockSync, ThreadsOfAProcessShareAClock) {
  std::atomic<int> shared = 0;
  run_thread_ranks(3, [&](const std::unique_ptr<Communicator>& world) { shared += share_a_clock(*world); });
  EXPECT_EQ(shared, 3);
}

TEST(ClockSync, FindsAPlantedOffsetWithinTheErrorThatItStates) {
  for (const std::int64_t ranks : {1, 2, 5, 8}) {
    SCOPED_TRACE(ranks);
    std::vector<ClockOffset> found(static_cast<std::size_t>(ranks));
    run_thread_ranks(ranks, [&](const std::unique_ptr<Communicator>& world) {
      const std::int64_t rank = world->rank().value;
      found[static_cast<std::size_t>(rank)] =
          measured_offset(*world, [rank] { return monotonic_ns() + rank * 7'000'000'000; });
    });
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const ClockOffset& offset = found[static_cast<std::size_t>(rank)];
      EXPECT_LE(std::abs(offset.offset_ns + rank * 7'000'000'000), offset.error_ns) << "rank " << rank;
    }
  }
}

TEST(ClockDrift, IsCorrectedAtAConstantRate) {
  // This clock lags 100 ns at its 1000, and 300 ns at its 3000.
  const ClockDrift drift{1000, {100, 5}, 3000, {300, 5}};
  EXPECT_EQ(drift.corrected(1000), 1100);
  EXPECT_EQ(drift.corrected(2000), 2200);
  EXPECT_EQ(drift.corrected(3000), 3300);
}

}  // namespace
}  // namespace commlens::bench
