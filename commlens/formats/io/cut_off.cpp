#include "commlens/formats/io/cut_off.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {
namespace {

/// Where the text of a file ends, and with which byte.
struct TextEnd {
  std::int64_t at = 0;
  char last = '\n';
};

TextEnd end_of_compressed(const std::filesystem::path& file) {
  TextEnd end;
  Result<TextSource> source = TextSource::open(file);
  std::array<char, 65536> block{};
  while (source) {
    const Result<std::size_t> got = source->read(block.data(), block.size());
    if (!got || *got == 0) {
      break;
    }
    end.at += static_cast<std::int64_t>(*got);
    end.last = block[*got - 1];
  }
  return end;
}

TextEnd end_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 2> magic{};
  in.read(magic.data(), magic.size());
  if (magic[0] == '\x1f' && magic[1] == '\x8b') {
    return end_of_compressed(file);
  }
  in.clear();
  in.seekg(-1, std::ios::end);
  TextEnd end{static_cast<std::int64_t>(in.tellg()) + 1, '\n'};
  in.get(end.last);
  return end;
}

/// Whether a reader skipped something for a reason that contains one of `words`.
bool skipped_for(const Trace& trace, std::initializer_list<std::string_view> words) {
  return std::any_of(trace.provenance.skipped.begin(), trace.provenance.skipped.end(), [&](const auto& skip) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return skip.first.find(word) != std::string::npos; });
  });
}

std::int64_t calls_of(const Trace& trace) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    calls += static_cast<std::int64_t>(stream.events.size());
  }
  return calls;
}

}  // namespace

std::string cut_off_text(const Trace& trace, const std::filesystem::path& file, const std::string& name) {
  // Readers of one big value know that it has no end. Those of lines only know that there are broken ones:
  // the last may be one of them if it has no line end.
  const bool ends_early = skipped_for(trace, {"end of the file", "the log is cut off"});
  if (!ends_early && !skipped_for(trace, {"cut off"})) {
    return "";
  }
  const TextEnd end = end_of(file);
  if (!ends_early && end.last == '\n') {
    return "";
  }
  const std::int64_t calls = calls_of(trace);
  return fmt::format("{}: {}; {} call{} read", name,
                     ends_early ? fmt::format("cut off at byte {}", end.at)
                                : fmt::format("ends within a line at byte {}, and has broken lines", end.at),
                     with_commas(calls), calls == 1 ? "" : "s");
}

}  // namespace commlens::formats
