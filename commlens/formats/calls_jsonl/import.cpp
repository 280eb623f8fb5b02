#include "commlens/formats/calls_jsonl/import.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/call_line_parser.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats::calls_jsonl {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

/// Whether `line` has the key, by its text (the line may be cut off).
bool has_key(std::string_view line, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key);
  for (std::size_t at = line.find(quoted); at != std::string_view::npos; at = line.find(quoted, at + 1)) {
    const std::size_t next = line.find_first_not_of(" \t", at + quoted.size());
    if (next != std::string_view::npos && line[next] == ':') {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  return TextSource::open(path).and_then(
      [](TextSource&& source) -> Result<Trace> { return read(std::move(source)); });
}

Result<Trace> read(TextSource source) {
  const std::string name = source.name();
  CallBuilder calls("calls JSON Lines", name);
  LineReader lines(std::move(source));
  CallLineParser parser;
  CallRecord record;
  std::int64_t count = 0;
  const Result<void> read = each_line(lines, [&](std::string_view line) -> Result<void> {
    if (is_blank(line)) {
      return {};
    }
    Result<void> taken = parser.parse(line, record);
    if (taken) {
      taken = calls.add(record);
      ++count;
    }
    if (!taken) {
      return failure(fmt::format("{}: {}{}", lines.where(), taken.error().message,
                                 lines.line_is_whole() ? "" : " (the file ends inside this line)"));
    }
    return {};
  });
  if (!read) {
    return tl::unexpected(read.error());
  }
  return count > 0 ? Result<Trace>(calls.finish()) : failure(fmt::format("{}: no calls in it", name));
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) {
    head.remove_prefix(3);
  }
  const std::string_view object = json_object_in(head);
  const std::string_view line = object.substr(0, object.find('\n'));
  return has_key(line, "op") && (has_key(line, "rank") || has_key(line, "input_bytes"));
}

}  // namespace commlens::formats::calls_jsonl
