#include "commlens/trace/trace_file.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/compute_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/open_stream.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/trace_directory.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

void write_files(const Trace& trace, const fs::path& directory) {
  std::vector<StreamEntry> entries;
  for (const RankStream& stream : trace.streams) {
    StreamEntry entry{fmt::format("stream-{}.bin", entries.size()), stream.ranks,
                      static_cast<std::int64_t>(stream.events.size())};
    write_stream_file(stream, static_cast<std::uint32_t>(entries.size()), directory / entry.file);
    if (!stream.compute.empty()) {
      entry.compute = fmt::format("stream-{}.compute.bin", entries.size());
      write_compute_file(stream, static_cast<std::uint32_t>(entries.size()), directory / entry.compute);
    }
    entries.push_back(std::move(entry));
  }
  write_file_atomically(directory / k_manifest_name, manifest_text(trace, entries));
}

/// What to do before the calls of a stream, whose row is given, with its calls, and with its compute
/// intervals.
struct StreamReader {
  std::function<void(std::size_t, const StreamSurvey&)> begin;
  std::function<void(std::size_t, std::span<const CommEvent>, std::span<const Times>)> take;
  std::function<void(std::size_t, std::vector<ComputeInterval>)> take_compute;
};

Result<void> read_stream(const fs::path& directory, std::size_t row, Manifest& manifest, RankClocks& clocks,
                         const StreamReader& reader) {
  const StreamEntry& entry = manifest.streams[row];
  const Result<std::optional<OpenStream>> opened = open_stream(directory, row, manifest, clocks);
  if (!opened) {
    return tl::unexpected(opened.error());
  }
  const std::optional<OpenStream>& found = *opened;
  reader.begin(row, found ? found->survey : StreamSurvey{});
  if (!found) {
    return {};
  }
  const OpenStream& stream = *found;
  Result<std::vector<ComputeInterval>> compute =
      read_compute(directory, entry, stream.shift, manifest.tables.provenance);
  if (!compute) {
    return tl::unexpected(compute.error());
  }
  reader.take_compute(row, std::move(*compute));
  stream.file.visit(entry.tables.empty() ? manifest.ops : stream.ops, stream.survey, stream.shift,
                    manifest.tables.provenance,
                    [&](std::span<const CommEvent> events, std::span<const Times> times) {
                      reader.take(row, events, times);
                    });
  return {};
}

/// Reads all streams; the ranks of each are in `streams` before its calls are read.
Result<void> read_streams(const fs::path& directory, Manifest& manifest, const StreamReader& reader) {
  for (const StreamEntry& entry : manifest.streams) {
    manifest.tables.streams.push_back({entry.ranks, {}, {}, {}});
  }
  RankClocks clocks;
  for (std::size_t row = 0; row < manifest.streams.size(); ++row) {
    if (const Result<void> read = read_stream(directory, row, manifest, clocks, reader); !read) {
      return read;
    }
  }
  return {};
}

}  // namespace

void write_trace(const Trace& trace, const fs::path& directory) {
  replace_trace_directory(directory, [&](const fs::path& path) { write_files(trace, path); });
}

Result<Trace> read_trace(const fs::path& directory) {
  Result<Manifest> manifest = manifest_of(directory);
  if (!manifest) {
    return tl::unexpected(manifest.error());
  }
  std::vector<RankStream>& streams = manifest->tables.streams;
  const auto begin = [&](std::size_t row, const StreamSurvey& survey) {
    const auto records = static_cast<std::size_t>(survey.records);
    streams[row].events.reserve(records);
    streams[row].times.reserve(survey.has_times() ? records : 0);
  };
  const auto take = [&](std::size_t row, std::span<const CommEvent> events, std::span<const Times> times) {
    streams[row].events.insert(streams[row].events.end(), events.begin(), events.end());
    streams[row].times.insert(streams[row].times.end(), times.begin(), times.end());
  };
  const auto take_compute = [&](std::size_t row, std::vector<ComputeInterval> compute) {
    streams[row].compute = std::move(compute);
  };
  if (const Result<void> read = read_streams(directory, *manifest, {begin, take, take_compute}); !read) {
    return tl::unexpected(read.error());
  }
  return std::move(manifest->tables);
}

}  // namespace commlens
