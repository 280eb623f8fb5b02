#pragma once
#include <string>
#include <string_view>

#include "commlens/base/table.hpp"

namespace commlens {

/// Lines of text broken between words where a terminal of `style.width` columns ends; what continues a line
/// stands two columns further in. Text that is as wide as it needs (width 0) stays as it is.
std::string wrapped(std::string_view text, const TextStyle& style);

}  // namespace commlens
