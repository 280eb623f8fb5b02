#include "commlens/base/sums.hpp"

#include "commlens/base/check.hpp"

namespace commlens {

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

Bytes part_of(Bytes whole, Fraction share) {
  COMMLENS_CHECK(share.denominator >= 1, "a share is a fraction");
  __extension__ using Wide = __int128;
  return {static_cast<std::int64_t>(static_cast<Wide>(whole.value) * share.numerator / share.denominator)};
}

}  // namespace commlens
