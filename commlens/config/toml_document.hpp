#pragma once
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {

/// The table of a TOML 1.0 text; dates and times are strings. `file` names it in errors. Nesting and size are
/// limited (TreeBuilder).
Result<ConfigNode> parse_toml(std::string_view file, std::string_view content);

}  // namespace commlens
