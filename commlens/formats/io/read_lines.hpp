#pragma once
#include <filesystem>
#include <string_view>
#include <type_traits>
#include <utility>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// Calls `take`, which gives nothing or a Result<void>, for each further line. Fails as it and LineReader do.
template <typename Take>
Result<void> each_line(LineReader& lines, const Take& take) {
  std::string_view line;
  Result<bool> more = lines.next(line);
  for (; more && *more; more = lines.next(line)) {
    if constexpr (std::is_void_v<decltype(take(line))>) {
      take(line);
    } else if (Result<void> taken = take(line); !taken) {
      return taken;
    }
  }
  return more ? Result<void>() : tl::unexpected(more.error());
}

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
  const Result<void> read = each_line(lines, [&](std::string_view line) { return reader.take(line); });
  return read ? reader.finish() : tl::unexpected(read.error());
}

}  // namespace commlens::formats
