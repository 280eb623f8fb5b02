#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace commlens {

/// Keys at the top of a JSON or YAML text, with underscores for hyphens, from its first 64 KiB. Lenient: the
/// text may be incomplete or invalid; its keys only serve to recognise its kind.
std::vector<std::string> top_level_keys(std::string_view content);

/// Whether the first word, comments aside, is a `--name`.
bool starts_with_argument(std::string_view content);

/// Whether a file is a script of a shell, by its first line or by its name, *.sh and the like, and not only
/// arguments.
bool is_shell_script(const std::filesystem::path& path, std::string_view content);

}  // namespace commlens
