#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {

/// The value of a JSON text. `file` names it in errors. Nesting and size are limited (TreeBuilder).
Result<ConfigNode> parse_json(std::string_view file, std::string_view content);

}  // namespace commlens
