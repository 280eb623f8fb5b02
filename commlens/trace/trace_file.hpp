#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Writes the native trace directory (docs/formats/trace.md): manifest.json with all tables, and one file of
/// 32-byte records per stream. Replaces a trace that is there; refuses (SystemError) a directory that holds
/// anything else.
void write_trace(const Trace& trace, const std::filesystem::path& directory);

/// Reads a native trace directory; every field is checked, the records of a file may end anywhere.
Result<Trace> read_trace(const std::filesystem::path& directory);

/// True when `path` is a directory with a commlens manifest.
bool is_trace(const std::filesystem::path& path);

}  // namespace commlens
