#pragma once
#include <cstdint>
#include <string>

#include "commlens/base/table.hpp"

namespace commlens {

/// "12.5 %" of `whole`; "-" of nothing.
std::string percent(std::int64_t part, std::int64_t whole);
/// The same as a cell; no value of nothing.
Cell share_cell(std::int64_t part, std::int64_t whole);

/// The cell, for people a dash where it has no value.
Cell or_dash(Cell cell);

/// `width` marks for the largest of what is shown, in proportion for `part`, at least one for anything above
/// 0.
std::string bar(std::int64_t part, std::int64_t largest, std::size_t width);

}  // namespace commlens
