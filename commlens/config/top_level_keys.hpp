#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace commlens {

/// Keys at the top of a JSON or YAML text, with underscores for hyphens, from its first 64 KiB. Lenient: the
/// text may be incomplete or invalid; its keys only serve to recognise its kind.
std::vector<std::string> top_level_keys(std::string_view content);

/// Whether the first word, comments aside, is a `--name`.
bool starts_with_argument(std::string_view content);

}  // namespace commlens
