#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace commlens {

/// Nanoseconds since the machine started (CLOCK_MONOTONIC_RAW), so that the ranks of one machine share their
/// zero; read from the processor's time stamp counter where it runs at one rate on all cores.
class Clock {
 public:
  /// How the counter relates to time; `frequency_hz` ticks take a second.
  struct Calibration {
    bool uses_tsc = false;
    std::uint64_t base_ticks = 0;
    std::int64_t base_ns = 0;
    std::int64_t frequency_hz = 1'000'000'000;
    std::int64_t rate_error_ppb = 0;  // how far the frequency may be off, in parts per billion
    std::int64_t wall_offset_ns = 0;  // wall clock (since 1970) minus this clock
  };

  /// The clock of this process, measured on first use (some milliseconds).
  static const Clock& of_process();

  explicit Clock(const Calibration& calibration);

  std::int64_t now_ns() const { return calibration_.uses_tsc ? time_of(ticks()) : monotonic_ns(); }
  /// The time at which the counter stood at `ticks`.
  std::int64_t time_of(std::uint64_t ticks) const {
    const auto elapsed = static_cast<Wide>(ticks - calibration_.base_ticks);
    return calibration_.base_ns + static_cast<std::int64_t>((elapsed * ns_per_tick_) >> k_shift);
  }
  const Calibration& calibration() const { return calibration_; }
  /// "tsc" or "monotonic".
  std::string_view name() const { return calibration_.uses_tsc ? "tsc" : "monotonic"; }
  /// How far this clock is from the kernel's now.
  struct Drift {
    std::chrono::nanoseconds ahead{};  // this one minus the kernel's …
    std::chrono::nanoseconds error{};  // … known to within this much either way
  };
  Drift measured_drift() const;
  std::chrono::nanoseconds drift() const { return measured_drift().ahead; }

  static std::uint64_t ticks();
  static std::int64_t monotonic_ns();

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int k_shift = 40;  // 2^-40 ns per tick: an error of 1 ns in 1000 s at 1 GHz

  Calibration calibration_;
  std::uint64_t ns_per_tick_ = 0;  // times 2^k_shift
};

/// The same text on every process of one machine since it started; empty where the system does not say.
std::string boot_id();

}  // namespace commlens
