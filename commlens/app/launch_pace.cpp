#include "commlens/app/launch_pace.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "commlens/bench/clock_sync.hpp"

namespace commlens {

LaunchClock::LaunchClock(std::function<std::int64_t()> given)
    : given_(std::move(given)),
      began_(std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()),
      began_monotonic_(bench::monotonic_ns()) {}

std::int64_t LaunchClock::now() const {
  return given_ ? given_() : began_ + bench::monotonic_ns() - began_monotonic_;
}

std::int64_t waited_until(const LaunchClock& clock, std::int64_t due,
                          const std::function<bool()>& stop_requested) {
  constexpr std::int64_t k_between_questions_ns = 20'000'000;
  std::int64_t now = clock.now();
  while (now < due && !(stop_requested && stop_requested())) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(due - now, k_between_questions_ns)));
    now = clock.now();
  }
  return now;
}

}  // namespace commlens
