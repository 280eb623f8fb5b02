#include "commlens/trace/trace_file.hpp"

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

void write_files(const Trace& trace, const fs::path& folder) {
  std::vector<StreamEntry> entries;
  for (const RankStream& stream : trace.streams) {
    StreamEntry entry{fmt::format("stream-{}.bin", entries.size()), stream.ranks,
                      static_cast<std::int64_t>(stream.events.size())};
    write_stream_file(stream, static_cast<std::uint32_t>(entries.size()), folder / entry.file);
    entries.push_back(std::move(entry));
  }
  write_file_atomically(folder / k_manifest_name, manifest_text(trace, entries));
}

Result<RankStream> read_written_stream(const fs::path& folder, const StreamEntry& entry, Manifest& manifest) {
  const Result<StreamFile> file = StreamFile::open(folder / entry.file, entry);
  if (!file) {
    return tl::unexpected(file.error());
  }
  return file->read(manifest.ops, manifest.tables.provenance);
}

}  // namespace

void write_trace(const Trace& trace, const fs::path& folder) {
  replace_trace_folder(folder, [&](const fs::path& path) { write_files(trace, path); });
}

Result<Trace> read_trace(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return failure(
        fmt::format("{}: {}", folder.string(),
                    fs::exists(folder, error) ? "not a folder, so no commlens trace" : "no such folder"));
  }
  if (!fs::exists(folder / k_manifest_name, error)) {
    return failure(fmt::format("{}: no commlens trace (it has no {})", folder.string(), k_manifest_name));
  }
  Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  if (!manifest) {
    return tl::unexpected(manifest.error());
  }
  RankClocks clocks;
  for (const StreamEntry& entry : manifest->streams) {
    Result<RankStream> stream = entry.tables.empty()
                                    ? read_written_stream(folder, entry, *manifest)
                                    : read_recorded_stream(folder, entry, manifest->tables, clocks);
    if (!stream) {
      return tl::unexpected(stream.error());
    }
    manifest->tables.streams.push_back(std::move(*stream));
  }
  return std::move(manifest->tables);
}

}  // namespace commlens
