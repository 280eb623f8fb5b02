#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// Whole content of a regular file. Fails (naming the file) when it is missing, a directory, unreadable,
/// or larger than `limit` bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, std::int64_t limit);

/// Writes a temporary file beside `path` and renames it over `path`, so that a reader sees the old content or
/// the new one and never a part. Throws SystemError when the disk is full or the directory cannot be written.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Throws the SystemError "cannot write PATH: REASON", with the system's text for `cause`, an errno.
[[noreturn]] void throw_cannot_write(const std::filesystem::path& path, int cause);

}  // namespace commlens
