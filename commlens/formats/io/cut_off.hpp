#pragma once
#include <filesystem>
#include <string>

#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// Of a trace that was read from `file` although that ends within a record: "NAME: cut off at byte N; M calls
/// read", or, of logs and tables, "NAME: ends within a line at byte N, …"; N counted in the decompressed
/// text. Empty where the file is whole, as far as its reader can tell.
std::string cut_off_text(const Trace& trace, const std::filesystem::path& file, const std::string& name);

}  // namespace commlens::formats
