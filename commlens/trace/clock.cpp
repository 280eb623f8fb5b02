#include "commlens/trace/clock.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace commlens {
namespace {

std::int64_t clock_ns(clockid_t id) {
  timespec now = {};
  clock_gettime(id, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The first line of a small file of the system, or nothing.
std::string line_of(const char* path) {
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) {
    return {};
  }
  std::array<char, 256> block = {};
  const std::size_t size = std::fread(block.data(), 1, block.size(), file);
  std::fclose(file);
  const std::string text(block.data(), size);
  return text.substr(0, text.find('\n'));
}

/// Whether the counter runs at one rate, always and on all cores. The kernel withdraws "tsc" from its clock
/// sources when the cores disagree.
bool has_steady_tsc() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned invariant = 1U << 8;  // Intel SDM 3, 18.17.1; AMD APM 3, CPUID 8000_0007
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & invariant) == 0) {
    return false;
  }
  const std::string sources = line_of("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  return sources.empty() || sources.find("tsc") != std::string::npos;
#else
  return false;
#endif
}

/// A moment on the counter and on another clock, and how far apart the two readings may be.
struct Moment {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
  std::uint64_t spread_ticks = UINT64_MAX;
};

/// The tightest of many readings: an interrupt between the two shows as a wide one.
Moment moment_of(clockid_t id) {
  constexpr int readings = 64;
  Moment best;
  for (int reading = 0; reading < readings; ++reading) {
    const std::uint64_t before = Clock::ticks();
    const std::int64_t ns = clock_ns(id);
    const std::uint64_t spread = Clock::ticks() - before;
    if (spread < best.spread_ticks) {
      best = {before + spread / 2, ns, spread};
    }
  }
  return best;
}

Clock::Calibration measured() {
  Clock::Calibration result;
  result.uses_tsc = has_steady_tsc();
  if (!result.uses_tsc) {
    result.base_ns = Clock::monotonic_ns();
    result.wall_offset_ns = clock_ns(CLOCK_REALTIME) - result.base_ns;
    return result;
  }
  constexpr std::int64_t baseline_ns = 10'000'000;
  const Moment first = moment_of(CLOCK_MONOTONIC_RAW);
  while (Clock::monotonic_ns() - first.ns < baseline_ns) {
  }
  const Moment last = moment_of(CLOCK_MONOTONIC_RAW);
  const auto ticks = static_cast<double>(last.ticks - first.ticks);
  result.base_ticks = last.ticks;
  result.base_ns = last.ns;
  result.frequency_hz = static_cast<std::int64_t>(ticks * 1e9 / static_cast<double>(last.ns - first.ns));
  const auto spread = static_cast<double>(first.spread_ticks + last.spread_ticks) / 2;
  result.rate_error_ppb = static_cast<std::int64_t>(spread / ticks * 1e9) + 1;
  const Moment wall = moment_of(CLOCK_REALTIME);
  result.wall_offset_ns = wall.ns - Clock(result).time_of(wall.ticks);
  return result;
}

}  // namespace

const Clock& Clock::of_process() {
  static const Clock clock(measured());
  return clock;
}

Clock::Clock(const Calibration& calibration) : calibration_(calibration) {
  const auto frequency = static_cast<std::uint64_t>(calibration_.frequency_hz);
  const Wide second = static_cast<Wide>(1'000'000'000) << k_shift;
  ns_per_tick_ = static_cast<std::uint64_t>((second + frequency - 1) / frequency);
}

Clock::Drift Clock::measured_drift() const {
  if (!calibration_.uses_tsc) {
    return {};
  }
  const Moment now = moment_of(CLOCK_MONOTONIC_RAW);
  const std::int64_t spread = time_of(now.ticks + now.spread_ticks) - time_of(now.ticks);
  return {.ahead = std::chrono::nanoseconds(time_of(now.ticks) - now.ns),
          .error = std::chrono::nanoseconds((spread + 1) / 2)};
}

std::uint64_t Clock::ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(monotonic_ns());
#endif
}

std::int64_t Clock::monotonic_ns() { return clock_ns(CLOCK_MONOTONIC_RAW); }

std::string boot_id() { return line_of("/proc/sys/kernel/random/boot_id"); }

}  // namespace commlens
