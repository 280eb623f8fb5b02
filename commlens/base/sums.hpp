#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"

namespace commlens {

/// a + b, held at the largest integer and at its negative: a foreign file may claim any size and any count.
inline std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;  // inline: it stands in loops over all calls of a trace
  return __builtin_add_overflow(a, b, &sum) || sum == INT64_MIN ? (a < 0 ? -INT64_MAX : INT64_MAX) : sum;
}
/// a * b for a, b >= 0, held at the largest integer.
std::int64_t saturating_product(std::int64_t a, std::int64_t b);

inline Bytes saturating_sum(Bytes a, Bytes b) { return {saturating_sum(a.value, b.value)}; }
inline Bytes saturating_product(Bytes a, std::int64_t times) { return {saturating_product(a.value, times)}; }

/// A share of something: numerator / denominator, denominator >= 1.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

/// whole * share, rounded down.
Bytes part_of(Bytes whole, Fraction share);

}  // namespace commlens
