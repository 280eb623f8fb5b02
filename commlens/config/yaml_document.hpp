#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {

/// The single document of a YAML text (GPT-NeoX's flow style with comments and trailing commas included).
/// `file` names it in errors. Nesting, size and alias expansion are limited (TreeBuilder).
Result<ConfigNode> parse_yaml(std::string_view file, const std::string& content);

}  // namespace commlens
