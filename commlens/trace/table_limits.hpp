#pragma once
#include <cstdint>

namespace commlens {

/// The most bytes of a file of rows; a larger one is refused.
constexpr std::int64_t k_largest_tables = std::int64_t{1} << 30;

}  // namespace commlens
