#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"

namespace commlens {

/// a + b, held at the largest integer and at its negative: a foreign file may claim any size and any count.
std::int64_t saturating_sum(std::int64_t a, std::int64_t b);
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
