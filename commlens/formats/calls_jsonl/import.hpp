#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One line of calls JSON Lines into `record`, which is cleared first. Fields we do not know are skipped; a
/// field that stands twice or has another type is an error. For many lines: CallLineParser.
Result<void> parse_call_line(std::string_view line, CallRecord& record);

/// Calls JSON Lines (docs/formats/calls.md): a file or gzip file.
Result<Trace> read_calls_jsonl(const std::filesystem::path& path);

/// The same of a source that is open, such as a pipe.
Result<Trace> read_calls_jsonl(TextSource source);

/// True when the first line that is not blank is a JSON object with the keys "rank" and "op".
bool sniff_calls_jsonl(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens
