#pragma once
#include <cstdint>

namespace commlens {

constexpr std::int64_t k_largest_tables = std::int64_t{1} << 30;  // bytes of a file of rows

}  // namespace commlens
