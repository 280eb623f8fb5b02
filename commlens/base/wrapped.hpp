#pragma once
#include <string>
#include <string_view>

#include "commlens/base/table.hpp"

namespace commlens {

/// Wraps text between words at `style.width` columns; continuation lines are indented by two more columns.
/// Width 0 leaves the text unchanged.
std::string wrapped(std::string_view text, const TextStyle& style);

}  // namespace commlens
