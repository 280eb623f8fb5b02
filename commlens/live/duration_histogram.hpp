#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace commlens {

/// Durations counted in classes of equal ratio, 8 to a doubling, so that a class's bounds differ by 9 %. The
/// first class has what is shorter than 1 ns, the last one all from 2^40 ns (18 minutes) on.
class DurationHistogram {
 public:
  static constexpr std::size_t k_per_octave = 8;
  static constexpr std::size_t k_classes = 40 * k_per_octave + 2;

  void add(std::chrono::nanoseconds duration) {
    ++counts_[class_of(duration.count())];
    longest_ = std::max(longest_, duration);
  }
  void merge(const DurationHistogram& other);
  /// As another histogram counted them; `which` is below k_classes.
  void add_counted(std::size_t which, std::uint64_t count) { counts_[which] += count; }
  void note_longest(std::chrono::nanoseconds duration) { longest_ = std::max(longest_, duration); }

  std::uint64_t count(std::size_t which) const { return counts_[which]; }
  std::chrono::nanoseconds longest() const { return longest_; }
  std::uint64_t total() const;
  /// Calls that took no longer than `limit`, as far as the classes tell: those of the classes that end there.
  std::uint64_t not_above(std::chrono::nanoseconds limit) const;
  /// The upper bound of the class that holds this share of the calls, 0 < `share` <= 1, or the longest call
  /// if that is shorter; nothing when empty.
  std::optional<std::chrono::nanoseconds> quantile(double share) const;

  /// In nanoseconds, not included.
  static double upper_bound_ns(std::size_t which);
  static std::size_t class_of(std::int64_t duration_ns);

 private:
  std::array<std::uint64_t, k_classes> counts_{};
  std::chrono::nanoseconds longest_{};
};

}  // namespace commlens
