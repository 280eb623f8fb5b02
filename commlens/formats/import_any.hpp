#pragma once
#include <filesystem>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// Reads a native trace directory or any importable file. "-" is standard input; it and other pipes are kept
/// in a file in TMPDIR for as long as they are read, calls JSON Lines are not. Throws SystemError where that
/// cannot be written.
/// Of a file that ends within a record, `cut_off` says where (cut_off_text); else it is emptied.
Result<Trace> import_any(const std::filesystem::path& path, std::string* cut_off = nullptr);

}  // namespace commlens::formats
