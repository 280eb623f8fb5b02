#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::calls_csv {

/// Calls CSV (docs/formats/calls.md): a header that names the columns in any order, then one call per record.
/// Columns we do not know are skipped.
Result<Trace> read(const std::filesystem::path& path);

/// True when the first line names the columns "rank", "op" and "input_bytes".
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::calls_csv
