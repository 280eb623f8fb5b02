#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"

namespace commlens {

/// a + b, saturated at ±INT64_MAX: a foreign file may contain any size and any count.
inline std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;  // inline: called in loops over all calls of a trace
  return __builtin_add_overflow(a, b, &sum) || sum == INT64_MIN ? (a < 0 ? -INT64_MAX : INT64_MAX) : sum;
}
/// a * b for a, b >= 0, saturated at INT64_MAX.
std::int64_t saturating_product(std::int64_t a, std::int64_t b);

inline Bytes saturating_sum(Bytes a, Bytes b) { return {saturating_sum(a.value, b.value)}; }
inline Bytes saturating_product(Bytes a, std::int64_t times) { return {saturating_product(a.value, times)}; }

/// The fraction numerator / denominator, denominator >= 1.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

/// whole * share, rounded down.
Bytes part_of(Bytes whole, Fraction share);

}  // namespace commlens
