#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::calls_jsonl {

/// Calls JSON Lines (docs/formats/calls.md): a file or gzip file.
Result<Trace> read(const std::filesystem::path& path);

/// The same of a source that is open, such as a pipe.
Result<Trace> read(TextSource source);

/// True when the first line that is not blank is a JSON object with the keys "rank" and "op".
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::calls_jsonl
