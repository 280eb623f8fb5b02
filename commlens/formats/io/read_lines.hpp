#pragma once
#include <filesystem>
#include <string_view>
#include <utility>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// Hands the lines of a file to a `Reader`, made of the file's name as messages show it, one by one through
/// take(line); gives what its finish() makes of them. Fails as LineReader does.
template <typename Reader>
Result<Trace> read_lines(const std::filesystem::path& path) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  Reader reader(source->name());
  LineReader lines(std::move(*source));
  while (true) {
    std::string_view line;
    const Result<bool> more = lines.next(line);
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more) {
      return reader.finish();
    }
    reader.take(line);
  }
}

}  // namespace commlens::formats
