#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Calls CSV (docs/formats/calls.md): a header that names the columns in any order, then one call per record.
/// Columns we do not know are skipped.
Result<Trace> read_calls_csv(const std::filesystem::path& path);

/// True when the first line names the columns "rank", "op" and "input_bytes".
bool sniff_calls_csv(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens
