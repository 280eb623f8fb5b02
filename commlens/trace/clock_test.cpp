#include "commlens/trace/clock.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Clock, TurnsTicksIntoNanoseconds) {
  const Clock clock({.uses_tsc = true, .base_ticks = 1000, .base_ns = 50, .frequency_hz = 2'500'000'000});
  EXPECT_EQ(clock.time_of(1000), 50);
  EXPECT_EQ(clock.time_of(1000 + 2500), 50 + 1000);
  // A day at 2.5 GHz; the multiplier is rounded to 2^-40 ns per tick, at most 0.2 ms in a day.
  constexpr std::int64_t day_ns = 86'400'000'000'000;
  EXPECT_LE(std::llabs(clock.time_of(1000 + 2'500'000'000ULL * 86'400) - 50 - day_ns), 200'000);
}

TEST(Clock, OfTheProcessIsTheKernelsMonotonicClock) {
  const Clock& clock = Clock::of_process();
  const std::int64_t before = Clock::monotonic_ns();
  const std::int64_t now = clock.now_ns();
  const std::int64_t after = Clock::monotonic_ns();
  const std::int64_t slack = 10'000'000;  // far more than a bad calibration gives, far less than a wrong unit
  EXPECT_GE(now, before - slack);
  EXPECT_LE(now, after + slack);
}

TEST(Clock, NeverRunsBackwards) {
  const Clock& clock = Clock::of_process();
  std::int64_t last = clock.now_ns();
  for (int reading = 0; reading < 100'000; ++reading) {
    const std::int64_t now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, SaysHowExactItIs) {
  const Clock& clock = Clock::of_process();
  EXPECT_GE(clock.calibration().frequency_hz, 1'000'000);
  EXPECT_GE(clock.calibration().rate_error_ppb, 0);
  EXPECT_GT(clock.calibration().wall_offset_ns, 0) << "the machine started after 1970";
}

}  // namespace
}  // namespace commlens
