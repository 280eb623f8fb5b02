#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace commlens::formats {

/// What a file is that no importer reads, and what to do, for a message: "a report of Nsight Systems; …". By
/// its first bytes (`head`) or the ending of its name; empty where neither is known.
std::string unreadable_format(const std::filesystem::path& path, std::string_view head);

/// What to name in place of a directory that is no native trace but holds files that import reads: "; it
/// holds 2 files of chakra-et: …". Empty where it holds none. Looks at a few files only.
std::string importable_files_text(const std::filesystem::path& directory);

}  // namespace commlens::formats
