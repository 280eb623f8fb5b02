#pragma once
#include <cstdint>
#include <string>

#include "commlens/base/table.hpp"

namespace commlens {

/// "12.5 %" of `whole`; "-" if `whole` is 0.
std::string percent(std::int64_t part, std::int64_t whole);
/// The same as a cell; no value if `whole` is 0.
Cell share_cell(std::int64_t part, std::int64_t whole);

/// The cell; a missing value is shown as a dash in text.
Cell or_dash(Cell cell);

/// A bar of `width` marks for the largest value and proportionally many for `part`, at least one if `part` >
/// 0.
std::string bar(std::int64_t part, std::int64_t largest, std::size_t width);

}  // namespace commlens
