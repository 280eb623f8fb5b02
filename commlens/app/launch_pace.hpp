#pragma once
#include <cstdint>
#include <functional>

namespace commlens {

/// Time since 1970 that only moves forward, ns: when launches begin.
class LaunchClock {
 public:
  /// `given`: a clock in its place; empty: the machine's.
  explicit LaunchClock(std::function<std::int64_t()> given = {});
  std::int64_t now() const;

 private:
  std::function<std::int64_t()> given_;
  std::int64_t began_;
  std::int64_t began_monotonic_;
};

/// Waits until `due`, or until the job is to stop; `stop_requested` may be empty. Returns the time.
std::int64_t waited_until(const LaunchClock& clock, std::int64_t due,
                          const std::function<bool()>& stop_requested);

}  // namespace commlens
